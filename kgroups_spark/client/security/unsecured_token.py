"""Unsecured tokens (unsigned JSON Web Tokens) of `unsecuredLogin...` options, for development.

Kafka 4.3: org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler.
"""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass

from kgroups_spark.client.property import BadClientProperty
from kgroups_spark.client.security.hidden import Secrets
from kgroups_spark.client.security.jaas import NAME
from kgroups_spark.client.security.tokens import Token

PREFIX = "unsecuredLogin"
RESERVED = ("iat", "exp")


@dataclass(frozen=True)
class UnsecuredToken:
    """The claims of the client, as JSON without `iat` and `exp`. They are not secret."""

    claims: str
    lifetime_s: int

    def new_token(self) -> Token:
        now = time.time()
        claims = {"iat": now, "exp": now + self.lifetime_s, **json.loads(self.claims)}
        parts = [json.dumps({"alg": "none"}), json.dumps(claims), ""]
        text = ".".join(urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
        return Token(text, now + self.lifetime_s)

    def secrets(self) -> Secrets:
        return Secrets()


def unsecured_token(options: Mapping[str, str]) -> UnsecuredToken:
    """The token of a login module's options. Raises BadClientProperty."""
    claims: dict[str, object] = {}
    for option, value in options.items():
        kind, _, claim = option.removeprefix(PREFIX).partition("Claim_")
        if not option.startswith(PREFIX) or kind not in ("String", "Number", "List") or not claim:
            continue
        if claim in RESERVED:
            raise BadClientProperty(f"{NAME}: the claims iat and exp cannot be given, they are times")
        claims[claim] = _value(kind, value)
    principal = options.get(f"{PREFIX}PrincipalClaimName", "").strip() or "sub"
    if not isinstance(claims.get(principal), str) or not claims[principal]:
        raise BadClientProperty(
            f"{NAME} names no token: for a token from an OAuth endpoint set sasl.oauthbearer.token.endpoint.url, "
            f'clientId and clientSecret, for an unsecured one (development) {PREFIX}StringClaim_{principal}="name"'
        )
    lifetime = options.get(f"{PREFIX}LifetimeSeconds", "3600")
    if not lifetime.isdecimal() or not 0 < int(lifetime) <= 10**9:
        raise BadClientProperty(f"{NAME}: {PREFIX}LifetimeSeconds is a number of seconds")
    return UnsecuredToken(json.dumps(claims), int(lifetime))


def _value(kind: str, value: str) -> object:
    if kind == "Number":
        try:
            return float(value)
        except ValueError as err:
            raise BadClientProperty(f"{NAME}: {PREFIX}NumberClaim_... is a number") from err
    if kind == "List":  # its first character separates the items
        return value[1:].split(value[0]) if len(value) > 1 else []
    return value
