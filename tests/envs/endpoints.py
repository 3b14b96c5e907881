"""A small real HTTP server that speaks OpenAI's chat protocol, and says whatever a test wants it to say."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, Any]  # status, and a JSON value or raw bytes


def completion(text: Any, finish: str = "stop", usage: tuple[int, int] | None = (3, 5)) -> dict[str, Any]:
    """What an endpoint sends back."""
    told = {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
    }
    if usage is not None:
        told["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return told


def failure(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


class Server:
    """Attributes: ``url`` to name in a spec, and ``bodies`` and ``headers`` of the requests so far, in order."""

    def __init__(self, port: int):
        self.url = f"http://127.0.0.1:{port}/v1"
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []

    def spec(self, options: str = "", name: str = "m") -> str:
        return f"openai:{name}@{self.url}{options}"


@contextmanager
def serving(reply: Callable[[dict[str, Any], int], Reply]) -> Iterator[Server]:
    """A server on a free port. ``reply`` gets a request's body and its number, and may be called by several threads."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                number = len(server.bodies)
                server.bodies.append(body)
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
            status, said = reply(body, number) if self.path == "/v1/chat/completions" else (404, failure("no path"))
            content = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "text/html" if content.startswith(b"<") else "application/json")
            self.send_header("content-length", str(len(content)))
            self.send_header("retry-after-ms", "1")  # or the client would wait for seconds
            with suppress(ConnectionError):  # the client has given up waiting
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server = Server(http.server_address[1])
        thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
