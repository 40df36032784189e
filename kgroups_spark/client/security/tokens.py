"""Bearer tokens of SASL/OAUTHBEARER, which each process caches for most of their life."""

from __future__ import annotations

import json
import math
import threading
import time
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kafka.net.sasl.oauth import AbstractTokenProvider

from kgroups_spark.client.security.hidden import Secrets
from kgroups_spark.errors import KgroupsError

# The share of a token's life after which a new one is requested: Kafka's default of sasl.login.refresh.window.factor.
USED_LIFE = 0.8


class NoToken(KgroupsError):
    """No token could be obtained. Retriable failures have been retried."""


@dataclass(frozen=True)
class Token:
    """A token as it is sent, and its expiry in epoch seconds; None: unknown."""

    text: str = field(repr=False)
    expires_at_s: float | None


class TokenSource(Protocol):
    """Plain, hashable values with which any process can obtain a token."""

    def new_token(self) -> Token:
        """A new token. Raises NoToken."""

    def secrets(self) -> Secrets: ...


_issued: dict[TokenSource, tuple[Token, float]] = {}  # the token, and when to request the next one (epoch seconds)
_lock = threading.Lock()


def current_token(source: TokenSource) -> str:
    """A token with at least a fifth of its life left, a new one if necessary. Raises NoToken."""
    with _lock:
        now = time.time()
        token, until_s = _issued.get(source, (None, now))
        if token is None or now >= until_s:
            token = source.new_token()
            life_s = 0 if token.expires_at_s is None else token.expires_at_s - now
            _issued[source] = token, now + life_s * USED_LIFE
        return token.text


def issued_secrets(source: TokenSource) -> Secrets:
    """The token of a source that this process has cached."""
    held = _issued.get(source)
    return Secrets((held[0].text,)) if held else Secrets()


def expires_at_s(text: str) -> float | None:
    """The claim `exp` of a JWT, in epoch seconds; None: it has none, it is not a time, or the text is not a JWT."""
    try:
        claims = json.loads(urlsafe_b64decode(text.split(".")[1] + "=="))
        return as_seconds(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        return None


def as_seconds(value: object) -> float | None:
    """A JSON number as seconds; None: it is not a number, or not a plausible one (NaN, infinite, too large)."""
    try:
        seconds = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) else None


class BearerTokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python asks for this class, without annotations
    """A source of tokens for kafka-python, and the SASL extensions that are sent with each."""

    def __init__(self, source: TokenSource, extensions: Mapping[str, str]) -> None:
        super().__init__()
        self._source = source
        self._extensions = dict(extensions)

    def token(self) -> str:
        """The current token. Raises NoToken."""
        return current_token(self._source)

    def extensions(self) -> dict[str, str]:
        return self._extensions
