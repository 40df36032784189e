"""Tokens of an OAuth endpoint for a client's id and secret (client credentials, RFC 6749 section 4.4).

Requests are those of Kafka 4.3: org.apache.kafka.common.security.oauthbearer.internals.secured.HttpJwtRetriever and
ClientSecretRequestFormatter. Redirects are not followed, because the secret would be sent to another server.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from dataclasses import dataclass, field
from http.client import HTTPException
from queue import Empty, SimpleQueue
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote_plus, urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from kgroups_spark.client.security.hidden import Secrets
from kgroups_spark.client.security.tls import Tls
from kgroups_spark.client.security.tokens import NoToken, Token, as_seconds, expires_at_s

# Kafka's UNRETRYABLE_HTTP_CODES, and redirects.
FINAL_CODES = {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 413, 414, 415, 501, 505} | set(range(300, 400))
MAX_ANSWER_BYTES = 1 << 20


@dataclass(frozen=True)
class TokenEndpoint:
    """An endpoint for tokens, and our identity there. The text of this object shows no secret."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    url_encodes_header: bool = False
    tls: Tls | None = None  # None: plain HTTP
    timeout_ms: int = 10_000  # to connect, and then once more for the whole exchange
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000  # all attempts together

    def new_token(self) -> Token:
        """A new token. Retries until the endpoint returns one or refuses, or time is up. Raises NoToken."""
        end = time.monotonic() + self.retry_backoff_max_ms / 1000
        backoff_s = self.retry_backoff_ms / 1000
        while True:
            try:
                return self._asked()
            except HTTPError as err:
                with err:
                    problem, is_final = f"HTTP {err.code}{err.msg}", err.code in FINAL_CODES
            except URLError as err:
                problem, is_final = str(err.reason), False
            except (TooSlow, OSError, HTTPException) as err:
                problem, is_final = str(err) or type(err).__name__, False
            left_s = end - time.monotonic()
            if is_final or left_s <= 0:
                raise NoToken(
                    f"no token from {self.url} (sasl.oauthbearer.token.endpoint.url) for client {self.client_id}: "
                    f"{self.secrets().hide(problem)}"
                )
            time.sleep(min(backoff_s, left_s))
            backoff_s *= 2

    def _asked(self) -> Token:
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {b64encode(self._pair().encode()).decode()}",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        request = Request(self.url, urlencode(form).encode(), headers)
        content = self._answer(request)
        body = _json_object(content)
        text = body.get("access_token")
        if not isinstance(text, str) or not text.strip():
            # The answer is not shown, because it may contain other secrets.
            raise NoToken(f"{self.url} (sasl.oauthbearer.token.endpoint.url) answered without an access_token")
        return Token(text.strip(), expires_at_s(text.strip()) or _expiry_s(body))

    def _answer(self, request: Request) -> bytes:
        """The whole answer. Raises TooSlow, HTTPError with its body read, OSError, HTTPException."""
        seconds = self.timeout_ms / 1000
        handlers = [_NoRedirects(), *([HTTPSHandler(context=self.tls.context())] if self.tls else [])]
        results: SimpleQueue[tuple[bytes, Exception | None]] = SimpleQueue()

        def read() -> None:
            try:
                with build_opener(*handlers).open(request, timeout=seconds) as answer:
                    results.put((answer.read(MAX_ANSWER_BYTES), None))
            except Exception as err:
                if isinstance(err, HTTPError):
                    err.msg = _oauth_error(err)  # it is read here, where nobody waits
                results.put((b"", err))

        # A socket's own time-out begins again with every byte; a thread that nobody waits for may read on.
        threading.Thread(target=read, daemon=True).start()
        try:
            content, err = results.get(timeout=2 * seconds)
        except Empty:
            raise TooSlow(f"no whole answer in {self.timeout_ms} ms") from None
        if err is not None:
            raise err
        return content

    def secrets(self) -> Secrets:
        """The client's secret, also in its form for the header."""
        own = Secrets((self.client_secret, self._pair()))
        return own + self.tls.secrets() if self.tls else own

    def _pair(self) -> str:
        pair = (self.client_id, self.client_secret)
        return ":".join(map(quote_plus, pair) if self.url_encodes_header else pair)


class TooSlow(Exception):
    """An endpoint whose answer does not end."""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _json_object(content: bytes) -> dict[str, Any]:
    """The answer as a dict; empty if it is not a JSON object."""
    try:
        body = json.loads(content)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _expiry_s(body: dict[str, Any]) -> float | None:
    seconds = as_seconds(body.get("expires_in"))
    return None if seconds is None else time.time() + seconds


def _oauth_error(err: HTTPError) -> str:
    """`, invalid_client: Unknown client` from an answer (RFC 6749 section 5.2); empty if the answer has no error."""
    try:
        body = _json_object(err.read(MAX_ANSWER_BYTES))
    except (OSError, HTTPException):
        return ""
    words = [str(body[name]) for name in ("error", "error_description") if body.get(name)]
    return f", {' '.join(': '.join(words).split())[:300]}" if words else ""
