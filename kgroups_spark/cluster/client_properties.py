"""Settings of kafka-python, from the properties of Kafka's Java clients.

Names and values are those of a `client.properties` for Kafka's own tools (--command-config). Each is used, ignored with
a note, or refused: nothing is guessed. `client_properties` reads the files that properties name (PEM, tokens), so that
its result works on other machines, in tasks.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from kgroups_spark.cluster.sasl import Sasl, sasl
from kgroups_spark.cluster.security import (
    BadClientProperty,
    Secrets,
    Tls,
    one_of,
    read_properties_file,
    shown,
    tls,
    whole_number,
)
from kgroups_spark.words import did_you_mean

# The names of Kafka's client properties, and the treatment of each here.
#
# From AdminClientConfig, ConsumerConfig and ProducerConfig of Kafka 3.9.2, 4.3.1 and 4.4.0.


_USED = """
    client.id default.api.timeout.ms request.timeout.ms sasl.client.callback.handler.class sasl.jaas.config
    sasl.kerberos.service.name sasl.login.callback.handler.class sasl.mechanism
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url security.protocol
    ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.key.password ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""
USED = tuple(_USED.split())

# Values that no message may show.
_SECRET = """
    sasl.jaas.config sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.assertion.private.key.passphrase
    ssl.key.password ssl.keystore.key ssl.keystore.password ssl.truststore.password
"""
SECRET = tuple(_SECRET.split())

SECURITY = ("sasl.", "security.", "ssl.")
# Names of security that change nothing here begin like this; other unknown names are ignored with a note.
_PASSED_OVER = """
    sasl.kerberos. sasl.login. sasl.oauthbearer. security.providers ssl.cipher.suites ssl.keymanager.algorithm
    ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
"""
PASSED_OVER = tuple(_PASSED_OVER.split())

_IN_JAAS = 'set username and password in sasl.jaas.config: ...LoginModule required username="..." password="...";'
# Name and what to do instead.
REFUSED = {
    "config.providers": "fill the values in first, for example --command-config <(envsubst < client.properties)",
    "password": f"{_IN_JAAS}; is a backslash missing at the end of the previous line?",
    "sasl.password": _IN_JAAS,
    "sasl.username": _IN_JAAS,
    "username": f"{_IN_JAAS}; is a backslash missing at the end of the previous line?",
}


__all__ = ["BadClientProperty", "ClientProperties", "client_properties", "read_properties_file"]

# Our name in brokers' quotas and request logs.
CLIENT_ID = "kgroups-spark"
# A name, not a stray piece of a value; and how like a used name a mistyped one is.
NAME, MISTYPED = r"acks|retries|(?=.{1,80}\Z)[a-z0-9]+([._-][a-z0-9]+)+", 0.9
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# The socket options, which are kafka-python's defaults, too.
SOCKET_OPTIONS = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
REQUEST_TIMEOUT, REQUEST_TIMEOUT_MS = "request.timeout.ms", 30_000  # Kafka's own defaults
API_TIMEOUT, API_TIMEOUT_MS = "default.api.timeout.ms", 60_000


@dataclass(frozen=True, repr=False)
class ClientProperties:
    """How to reach a cluster, and our credentials there. It can be pickled; its repr names properties, never values."""

    bootstrap_servers: str  # host:port,host:port
    names: tuple[str, ...]  # of the properties that are used, sorted
    notes: tuple[str, ...]  # notes for people: ignored properties, disabled checks
    security_protocol: str
    timeout_ms: int  # the time limit of one request with its retries: default.api.timeout.ms
    _settings: Mapping[str, Any] = field(hash=False)
    _tls: Tls | None
    _sasl: Sasl | None
    _secrets: Secrets

    def __repr__(self) -> str:
        return f"ClientProperties({self.bootstrap_servers}: {', '.join(self.names) or 'no properties'})"

    def settings(self) -> dict[str, Any]:
        """The settings of a connection, by kafka-python's names; its SASL mechanisms take them, too. New ones for each
        call, because an SSLContext cannot be pickled."""
        settings = {"security_protocol": self.security_protocol, **self._settings}
        if self._tls is not None:
            settings["ssl_context"] = self._tls.context()
        if self._sasl is not None:
            settings |= self._sasl.settings()
        return settings

    def without_secrets(self, text: str) -> str:
        """The text with [hidden] for every password, key and token, also where it is URL- or base64-encoded."""
        secrets = self._secrets
        if self._tls is not None:
            secrets += self._tls.secrets()
        if self._sasl is not None:
            secrets += self._sasl.secrets()
        return secrets.hide(text)


def client_properties(bootstrap_servers: str, properties: Mapping[str, str]) -> ClientProperties:
    """The checked properties, with the content of the files that they name. Raises BadClientProperty, UsageError for
    unreadable files; no message shows a secret."""
    given = {name.strip(): value.strip() for name, value in properties.items()}
    _require_known(given)
    over = sorted(given.keys() - set(USED))
    notes = [f"ignored, as not used here: {', '.join(over)}"] if over else []
    protocol = one_of("security.protocol", given.get("security.protocol", "PLAINTEXT").upper(), PROTOCOLS)
    found_tls = tls(given, notes) if protocol.endswith("SSL") else None
    found_sasl, secrets = sasl(given, notes) if protocol.startswith("SASL") else (None, Secrets())
    if found_sasl and protocol == "SASL_PLAINTEXT" and found_sasl.mechanism in ("PLAIN", "OAUTHBEARER"):
        notes.append(f"SASL_PLAINTEXT with {found_sasl.mechanism}: the password or token is sent in clear text")
    return ClientProperties(
        bootstrap_servers=_addresses(bootstrap_servers),
        names=tuple(sorted(name for name in given if name in USED)),
        notes=tuple(notes),
        security_protocol=protocol,
        timeout_ms=whole_number(API_TIMEOUT, given.get(API_TIMEOUT, str(API_TIMEOUT_MS)), 0),
        _settings={
            "client_id": given.get("client.id") or CLIENT_ID,
            "request_timeout_ms": whole_number(REQUEST_TIMEOUT, given.get(REQUEST_TIMEOUT, str(REQUEST_TIMEOUT_MS)), 1),
        },
        _tls=found_tls,
        _sasl=found_sasl,
        _secrets=secrets + Secrets(tuple(given[name] for name in SECRET if name in given)),
    )


def _require_known(given: Mapping[str, str]) -> None:
    """Raises one BadClientProperty for all names that are refused, unknown to security, or probably mistyped."""
    problems = [_about_unknown(name) for name in sorted(given) if _is_a_mistake(name)]
    if problems:
        raise BadClientProperty("; ".join(problems))


def _is_a_mistake(name: str) -> bool:
    if name in USED or name.startswith("config.providers."):
        return False
    is_near_a_used_one = bool(get_close_matches(name, USED, cutoff=MISTYPED))
    is_unknown = name.startswith(SECURITY) and not name.startswith(PASSED_OVER)
    return name in REFUSED or is_unknown or is_near_a_used_one or not re.fullmatch(NAME, name)


def _about_unknown(name: str) -> str:
    if name in REFUSED:
        return f"{name} is not used here: {REFUSED[name]}"
    nearest = did_you_mean(name, USED)
    # The name of a stray line may be a piece of a value, and so of a secret.
    if nearest or re.fullmatch(NAME, name):
        return f"{name} is not a property of Kafka's clients{nearest}"
    return (
        "a line is not a property of Kafka's clients (not shown, it may be part of a value): is a backslash missing "
        "at the end of the previous line?"
    )


def _addresses(bootstrap_servers: str) -> str:
    """The addresses without blanks and protocols. Kafka 4.3: ClientUtils.parseAndValidateAddresses."""
    addresses = [address.strip() for address in bootstrap_servers.split(",") if address.strip()]
    if not addresses:
        raise BadClientProperty(
            "no broker given: set --bootstrap-server or kafka.bootstrap.servers to host:port,host:port"
        )
    for address in addresses:
        match = re.fullmatch(r"(?:[A-Z_]+://)?(\[[0-9A-Fa-f:.%]+\]|[\w.-]+):([0-9]{1,5})", address)
        if not match or not 0 < int(match[2]) < 65536:
            raise BadClientProperty(f"a broker must be host:port, such as kafka.example.com:9092, not {shown(address)}")
    return ",".join(address.rpartition("://")[2] for address in addresses)
