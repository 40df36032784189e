"""An OAuth token endpoint on this machine, which answers as a test asks."""

from __future__ import annotations

import json
import ssl
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


def jwt(**claims: Any) -> str:
    parts = [json.dumps({"alg": "none"}), json.dumps(claims), "signature"]
    return ".".join(urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)


@dataclass
class TokenServer:
    """`answers`: (code, body, headers) in order, the last one repeatedly. `asked`: headers and bodies."""

    url: str
    answers: list[tuple[int, Any, dict[str, str]]]
    asked: list[tuple[dict[str, str], str]] = field(default_factory=list)


@contextmanager
def token_server(*answers: Any, context: ssl.SSLContext | None = None) -> Iterator[TokenServer]:
    """An answer is a body (a dict is JSON), or (code, body), or (code, body, headers)."""
    full = [each if isinstance(each, tuple) else (200, each) for each in answers]
    kept = TokenServer("", [(code, body, headers[0] if headers else {}) for code, body, *headers in full])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            kept.asked.append((dict(self.headers), body))
            code, said, headers = kept.answers.pop(0) if len(kept.answers) > 1 else kept.answers[0]
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write((json.dumps(said) if isinstance(said, dict) else said).encode())

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        kept.url = f"{'https' if context else 'http'}://localhost:{server.server_port}/token"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield kept
        finally:
            server.shutdown()
            thread.join()


def fresh_jwt() -> str:
    return jwt(sub="me", exp=time.time() + 3600)
