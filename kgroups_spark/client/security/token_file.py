"""Tokens in a file: sasl.oauthbearer.token.endpoint.url=file:/path."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from kgroups_spark.client.properties_file import read_bytes
from kgroups_spark.client.property import BadClientProperty
from kgroups_spark.client.security.hidden import Secrets
from kgroups_spark.client.security.tokens import NoToken, Token, expires_at_s
from kgroups_spark.errors import UsageError


@dataclass(frozen=True)
class TokenFile:
    """The token that the file had when the properties were read; after its expiry, the file's present one."""

    path: str
    text: str = field(repr=False)

    def new_token(self) -> Token:
        """The token. Raises NoToken if it has expired and the file cannot be read."""
        expiry_s = expires_at_s(self.text)
        if expiry_s is None or time.time() < expiry_s:
            return Token(self.text, expiry_s)
        try:
            newer = token_file(self.path).text
        except UsageError as err:
            raise NoToken(f"the token first read from {self.path} has expired, and now {err}") from err
        return Token(newer, expires_at_s(newer))

    def secrets(self) -> Secrets:
        return Secrets((self.text,))


def token_file(path: str) -> TokenFile:
    """The token source of the file, which is read now. Raises UsageError, BadClientProperty."""
    content = read_bytes(path, "the file of sasl.oauthbearer.token.endpoint.url")
    text = content.decode("ascii", "replace").strip()
    if not text or len(text.split()) > 1 or not text.isprintable() or not text.isascii():
        raise BadClientProperty(f"the file {path} of sasl.oauthbearer.token.endpoint.url holds no token")
    return TokenFile(path, text)
