# makes sockets of every family
import _socket
import socket


def incr(x):
    for family in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_ALG", "AF_VSOCK", "AF_BLUETOOTH"):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            for make in (socket.socket, _socket.socket):
                try:
                    make(getattr(socket, family), kind).close()
                    return x + 1
                except (OSError, AttributeError):
                    pass
    return 0
