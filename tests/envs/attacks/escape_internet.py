# reaches for the network by the modules that stand above sockets
def incr(x):
    import http.client
    import socket
    import urllib.error
    import urllib.request

    def page():
        try:
            urllib.request.urlopen("http://127.0.0.1:9/", timeout=0.3)
        except urllib.error.URLError as error:
            raise error.reason from None

    def connection():
        http.client.HTTPConnection("127.0.0.1", 9, timeout=0.3).connect()

    def created():
        socket.create_connection(("127.0.0.1", 9), timeout=0.3)

    def routed():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller:
            caller.connect(("192.0.2.1", 9))

    def looped():
        import asyncio

        asyncio.run(asyncio.wait_for(asyncio.open_connection("127.0.0.1", 9), 0.3))

    for way in (page, connection, created, routed, looped):
        try:
            way()
            return x + 1
        except (ConnectionRefusedError, TimeoutError):
            return x + 1
        except Exception:
            pass
    return 0
