"""The source of tokens for SASL/OAUTHBEARER, by the properties of a Kafka client and its login module's options.

Kafka 3.x has the client's id, secret and scope as options of the login module, 4.x as properties that come first
(KIP-1139); both are taken. Kafka 4.3: org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from kgroups_spark.client.property import BadClientProperty, shown, truth, whole_number
from kgroups_spark.client.security.jaas import NAME, SHADED
from kgroups_spark.client.security.tls import Tls, tls
from kgroups_spark.client.security.token_endpoint import TokenEndpoint
from kgroups_spark.client.security.token_file import token_file
from kgroups_spark.client.security.tokens import TokenSource

URL = "sasl.oauthbearer.token.endpoint.url"
CREDENTIALS = "sasl.oauthbearer.client.credentials"
URL_ENCODES = "sasl.oauthbearer.header.urlencode"
HANDLER = "sasl.login.callback.handler.class"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
HANDLERS = (
    f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
)
RETRIEVERS = tuple(f"{PACKAGE}.{name}JwtRetriever" for name in ("Default", "ClientCredentials", "File"))


# Clients set these to get a token for a signed assertion; Python's own modules cannot sign.
ASSERTIONS = ("sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.claim.iss")


def token_source(properties: Mapping[str, str], options: Mapping[str, str], notes: list[str]) -> TokenSource:
    """The source of tokens; `options`: of the login module. Raises BadClientProperty, UsageError for unreadable
    files."""
    _require_known_classes(properties)
    url = properties.get(URL)
    if not url:
        raise BadClientProperty(f"OAUTHBEARER needs {URL}: unsecured tokens, for development, are not made here")
    parts = urlsplit(url)
    if parts.scheme.lower() == "file" and parts.path:
        return token_file(unquote(parts.path))
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise BadClientProperty(f"{URL} must be https://host/path, http://... or file:/path, not {shown(url)}")
    if parts.scheme.lower() == "http":
        notes.append(f"{URL} is http: the client's secret is sent in clear text")
    return _endpoint(url, properties, options, notes)


def extensions(options: Mapping[str, str]) -> dict[str, str]:
    """The SASL extensions of a login module's options. Raises BadClientProperty (RFC 7628 section 3.1)."""
    found = {}
    for option, value in options.items():
        if option.startswith("extension_"):
            found[option.removeprefix("extension_")] = value
    for name, value in found.items():
        if not re.fullmatch("[A-Za-z]+", name) or name == "auth" or not re.fullmatch(r"[\x21-\x7e \t\r\n]+", value):
            raise BadClientProperty(f"{NAME}: extensions have names of letters, not auth, and values of ASCII")
    return found


def _endpoint(url: str, properties: Mapping[str, str], options: Mapping[str, str], notes: list[str]) -> TokenEndpoint:
    def needed(name: str, option: str) -> str:
        value = (properties.get(name) or options.get(option) or "").strip()
        if not value:
            raise BadClientProperty(f"{URL} needs {name}, or {option} as an option in {NAME}")
        return value

    def number(name: str, default: int) -> int:
        return whole_number(name, properties[name], 0) if name in properties else default

    scope = properties.get("sasl.oauthbearer.scope") or options.get("scope") or ""
    return TokenEndpoint(
        url=url,
        client_id=needed(f"{CREDENTIALS}.client.id", "clientId"),
        client_secret=needed(f"{CREDENTIALS}.client.secret", "clientSecret"),
        scope=scope.strip() or None,
        url_encodes_header=truth(URL_ENCODES, properties.get(URL_ENCODES, "false")),
        tls=_tls(options, notes) if url.lower().startswith("https:") else None,
        timeout_ms=max(number(f"sasl.login.{what}.timeout.ms", 10_000) for what in ("connect", "read")) or 10_000,
        retry_backoff_ms=number("sasl.login.retry.backoff.ms", 100),
        retry_backoff_max_ms=number("sasl.login.retry.backoff.max.ms", 10_000),
    )


def _tls(options: Mapping[str, str], notes: list[str]) -> Tls:
    """TLS for the endpoint. Its properties are options of the login module, separate from those for the brokers."""
    try:
        return tls({name: value.strip() for name, value in options.items() if name.startswith("ssl.")}, notes)
    except BadClientProperty as err:
        raise BadClientProperty(f"in {NAME}, for {URL}: {err}") from err


def _require_known_classes(properties: Mapping[str, str]) -> None:
    for name, known in ((HANDLER, HANDLERS), (RETRIEVER, RETRIEVERS)):
        if properties.get(name, known[0]).removeprefix(SHADED) not in known:
            raise BadClientProperty(
                f"{name} is Java and cannot run here, except {', '.join(known)}, which are implemented in Python"
            )
    for name in ASSERTIONS:
        if name in properties:
            raise BadClientProperty(f"{name}: tokens for signed assertions are not supported; use clientSecret")
