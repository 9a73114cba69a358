"""A stand-in for the admin interface of a broker, and the token that opens it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

TOKEN = "0123456789abcdef"
Answer = tuple[int, object]
"""The status, and what is told as JSON."""


def token_file(folder: Path) -> Path:
    """Where the token is kept, for nobody else to read."""
    file = folder / "token"
    file.touch(mode=0o600)
    file.write_text(TOKEN + "\n", encoding="utf-8")
    return file


@contextmanager
def answering(answer: Callable[[str, bytes], Answer]) -> Iterator[str]:
    """Gives path and body of each request with the token to `answer`; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(b"")

        def do_POST(self) -> None:
            self._say(self.rfile.read(int(self.headers["Content-Length"])))

        do_PUT, do_DELETE = do_POST, do_GET

        def _say(self, given: bytes) -> None:
            known = self.headers["Authorization"] == f"Bearer {TOKEN}"
            status, told = answer(self.path, given) if known else (401, None)
            body = msgspec.json.encode(told)
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
