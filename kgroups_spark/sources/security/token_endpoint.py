"""Tokens that an OAuth endpoint gives for a client's id and secret (client credentials, RFC 6749 section 4.4).

As Kafka 4.3 asks for them: org.apache.kafka.common.security.oauthbearer.internals.secured.HttpJwtRetriever and
ClientSecretRequestFormatter. Redirects are not followed: the secret would go to another place.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote_plus, urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from kgroups_spark.sources.security.hidden import Secrets
from kgroups_spark.sources.security.tls import Tls
from kgroups_spark.sources.security.tokens import NoToken, Token, expires_at_s

# Kafka's UNRETRYABLE_HTTP_CODES, and redirects.
FINAL_CODES = {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 413, 414, 415, 501, 505} | set(range(300, 400))
MAX_ANSWER_BYTES = 1 << 20


@dataclass(frozen=True)
class TokenEndpoint:
    """Where a token is asked for, and by whom. Printed it names no secret."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    url_encodes_header: bool = False
    tls: Tls | None = None  # None: plain HTTP
    timeout_ms: int = 10_000  # to connect, and of each answer's part
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000  # all attempts together

    def new_token(self) -> Token:
        """Asks until there is a token, the endpoint refuses, or the time for attempts is over. Raises NoToken."""
        end = time.monotonic() + self.retry_backoff_max_ms / 1000
        backoff_s = self.retry_backoff_ms / 1000
        while True:
            try:
                return self._asked()
            except HTTPError as err:
                with err:
                    problem, is_final = f"HTTP {err.code}{_oauth_error(err)}", err.code in FINAL_CODES
            except URLError as err:
                problem, is_final = str(err.reason), False
            except (OSError, HTTPException) as err:
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
        handlers = [HTTPSHandler(context=self.tls.context())] if self.tls else []
        request = Request(self.url, urlencode(form).encode(), headers)
        with build_opener(_NoRedirects, *handlers).open(request, timeout=self.timeout_ms / 1000) as answer:
            content = answer.read(MAX_ANSWER_BYTES)
        body = _json_object(content)
        text = body.get("access_token")
        if not isinstance(text, str) or not text.strip():
            # The answer is not shown: it may hold what we do not look for.
            raise NoToken(f"{self.url} (sasl.oauthbearer.token.endpoint.url) answered without an access_token")
        return Token(text.strip(), expires_at_s(text.strip()) or _expiry_s(body))

    def secrets(self) -> Secrets:
        """The client's secret, also as a header says it."""
        own = Secrets((self.client_secret, self._pair()))
        return own + self.tls.secrets() if self.tls else own

    def _pair(self) -> str:
        pair = (self.client_id, self.client_secret)
        return ":".join(map(quote_plus, pair) if self.url_encodes_header else pair)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _json_object(content: bytes) -> dict[str, Any]:
    """What the answer says; empty: it is no JSON object."""
    try:
        body = json.loads(content)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _expiry_s(body: dict[str, Any]) -> float | None:
    seconds = body.get("expires_in")
    return time.time() + seconds if isinstance(seconds, int | float) else None


def _oauth_error(err: HTTPError) -> str:
    """`, invalid_client: Unknown client` of an answer (RFC 6749 section 5.2); empty: it says nothing."""
    try:
        body = _json_object(err.read(MAX_ANSWER_BYTES))
    except (OSError, HTTPException):
        return ""
    words = [str(body[name]) for name in ("error", "error_description") if body.get(name)]
    return f", {' '.join(': '.join(words).split())[:300]}" if words else ""
