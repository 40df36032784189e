"""Settings of kafka-python, from the properties of Kafka's Java clients.

Names and values are those of a `client.properties` for Kafka's own tools (--command-config). Each is used, ignored with
a note, or refused: nothing is guessed. `client_properties` reads the files that properties name (PEM, tokens), so that
its result works on other machines, in tasks.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from kgroups_spark.cluster import client_properties as config_providers
from kgroups_spark.cluster.property import (
    BadClientProperty,
    Secrets,
    listed,
    one_of,
    read_bytes,
    read_properties_file,
    shown,
    whole_number,
)
from kgroups_spark.cluster.sasl import Sasl, sasl
from kgroups_spark.cluster.tls import Tls, tls
from kgroups_spark.errors import UsageError
from kgroups_spark.sources.files import parse_properties
from kgroups_spark.words import did_you_mean

# References to values kept elsewhere: `${env:NAME}`, `${file:/path:key}`, `${dir:/path:file}`, as in Kafka's clients.
#
# `config.providers` names the providers, `config.providers.<name>.class` is the class of each. Parameters that restrict
# what a provider may read are refused. Kafka's own three classes are implemented here in Python; no Java runs. The
# pattern is that of org.apache.kafka.common.config.ConfigTransformer (4.3).
#
# Kafka leaves a reference that it cannot resolve as it is. Here it is an error, because it is hardly a password.


PROVIDERS = "config.providers"
REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")

# A provider with its parameters: path and key -> value.
Lookup = Callable[[str, str], str]


@dataclass(frozen=True, repr=False)
class Resolved:
    """The properties with their references resolved, without those that configure the providers. `found` has the
    providers' values: a value kept elsewhere does not belong in messages."""

    properties: dict[str, str]
    found: tuple[str, ...]


def resolve(properties: Mapping[str, str]) -> Resolved:
    """The properties with their references resolved. Raises BadClientProperty for a provider or a reference that cannot
    be resolved."""
    providers, found = _providers(properties), list[str]()
    resolved = {
        name: _resolved(name, value, providers, found)
        for name, value in properties.items()
        if name != PROVIDERS and not name.startswith(f"{PROVIDERS}.")
    }
    return Resolved(resolved, tuple(found))


def _resolved(name: str, value: str, providers: Mapping[str, Lookup], found: list[str]) -> str:
    def one(match: re.Match[str]) -> str:
        provider, path, key = match.groups()
        if provider not in providers:
            # The text may be part of a password: do not show it.
            known = f"{PROVIDERS} names {', '.join(providers)}" if providers else f"there is no {PROVIDERS}"
            raise BadClientProperty(
                f"{name} has a reference (${{...:...}}) to an undeclared provider: {known}; for the environment write "
                f"{PROVIDERS}=env and "
                f"{PROVIDERS}.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider"
            )
        try:
            found.append(providers[provider](path or "", key))
            return found[-1]
        except UsageError as err:
            raise BadClientProperty(f"the reference in {name} cannot be resolved: {err}") from err

    return REFERENCE.sub(one, value)


def _providers(properties: Mapping[str, str]) -> dict[str, Lookup]:
    providers: dict[str, Lookup] = {}
    for alias in listed(properties.get(PROVIDERS, "")):
        class_name = properties.get(f"{PROVIDERS}.{alias}.class", "").strip()
        if class_name not in CLASSES:
            raise BadClientProperty(
                f"{PROVIDERS}.{alias}.class must be one of {', '.join(CLASSES)}: other providers are Java and cannot "
                "run here; give the value itself, or an environment variable"
            )
        prefix = f"{PROVIDERS}.{alias}.param."
        if any(name.startswith(prefix) for name in properties):
            raise BadClientProperty(f"{prefix}* would restrict what may be read, and is not supported: leave it out")
        providers[alias] = CLASSES[class_name]
    return providers


def _environment(path: str, key: str) -> str:
    if path:
        raise UsageError("${env:...} has a name only, no path")
    if key not in os.environ:
        raise UsageError(f"no environment variable {key}")
    return os.environ[key]


def _properties_file(path: str, key: str) -> str:
    properties = parse_properties(_text(path))
    if key not in properties:
        raise UsageError(f"{path} has no property {key}")
    return properties[key]


def _folder(path: str, key: str) -> str:
    """The content of a file directly in the folder."""
    if "/" in key or key in ("", ".", ".."):
        raise UsageError(f"{key!r} is not the name of a file in {path}")
    return _text(os.path.join(path, key))  # noqa: PTH118  # a path of the user's, as it is


def _text(path: str) -> str:
    try:
        return read_bytes(path, "the file").decode()
    except UnicodeDecodeError as err:
        raise UsageError(f"the file {path} is not UTF-8 text") from err


PACKAGE = "org.apache.kafka.common.config.provider"
CLASSES: Mapping[str, Lookup] = {
    f"{PACKAGE}.EnvVarConfigProvider": _environment,
    f"{PACKAGE}.FileConfigProvider": _properties_file,
    f"{PACKAGE}.DirectoryConfigProvider": _folder,
}


# The names of Kafka's client properties, and the treatment of each here.
#
# From AdminClientConfig, ConsumerConfig and ProducerConfig of Kafka 3.9.2, 4.3.1 and 4.4.0.


USED = (
    "client.dns.lookup",
    "client.id",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "metadata.max.age.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.kerberos.service.name",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.mechanism",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "security.protocol",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)

# Values that no message may show.
SECRET = (
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.password",
)

# Names of security that change nothing here. All other names are ignored with a note, as Java ignores them.
SECURITY = ("sasl.", "security.", "ssl.")
PASSED_OVER = (
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.oauthbearer.allow.unverified.audience",
    "sasl.oauthbearer.allow.unverified.issuer",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "security.providers",
    "ssl.cipher.suites",
    "ssl.keymanager.algorithm",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)

_IN_JAAS = 'set username and password in sasl.jaas.config: ...LoginModule required username="..." password="...";'
_TRUSTSTORE = "Kafka's Java clients use ssl.truststore.location and ssl.truststore.type=PEM"
_KEYSTORE = "Kafka's Java clients use ssl.keystore.location and ssl.keystore.type=PEM for certificates and key together"
# Name and what to do instead: of librdkafka, of options that belong into sasl.jaas.config, of another kind of client.
REFUSED = {
    "bootstrap.controllers": "we ask brokers, not controllers: leave it out",
    "client_id": "use client.id",
    "enable.ssl.certificate.verification": "certificates are always checked: set ssl.truststore.location",
    "metadata.broker.list": "use --bootstrap-server or kafka.bootstrap.servers",
    "password": f"{_IN_JAAS}; is a backslash missing at the end of the previous line?",
    "sasl.mechanisms": "use sasl.mechanism",
    "sasl.oauthbearer.client.id": "use sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "use sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.config": "Kafka's Java clients use options of sasl.jaas.config",
    "sasl.oauthbearer.method": "Kafka's Java clients use sasl.oauthbearer.token.endpoint.url",
    "sasl.password": _IN_JAAS,
    "sasl.username": _IN_JAAS,
    "ssl.ca.location": _TRUSTSTORE,
    "ssl.ca.pem": "Kafka's Java clients use ssl.truststore.certificates",
    "ssl.certificate.location": _KEYSTORE,
    "ssl.certificate.pem": "Kafka's Java clients use ssl.keystore.certificate.chain",
    "ssl.key.location": _KEYSTORE,
    "ssl.key.pem": "Kafka's Java clients use ssl.keystore.key",
    "username": f"{_IN_JAAS}; is a backslash missing at the end of the previous line?",
}


__all__ = ["BadClientProperty", "ClientProperties", "client_properties", "read_properties_file"]

# Our name in brokers' quotas and request logs.
CLIENT_ID = "kgroups-spark"
# A name, not a stray piece of a value; and how like a used name a mistyped one is.
NAME, MISTYPED = r"acks|retries|(?=.{1,80}\Z)[a-z0-9]+([._-][a-z0-9]+)+", 0.9
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Properties with numbers, and the least value. Units are in the names; kafka-python's name has `_` for each dot.
NUMBERS = {
    "connections.max.idle.ms": -1,
    "metadata.max.age.ms": 0,
    "reconnect.backoff.max.ms": 0,
    "reconnect.backoff.ms": 0,
    "request.timeout.ms": 1,
    "socket.connection.setup.timeout.max.ms": 1,
    "socket.connection.setup.timeout.ms": 1,
}
BUFFERS = {"receive.buffer.bytes": socket.SO_RCVBUF, "send.buffer.bytes": socket.SO_SNDBUF}
# The default socket options, which are kafka-python's, too; buffer sizes are added to them.
SOCKET_OPTIONS = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
NEVER_MS = 2**31 - 1
API_TIMEOUT, API_TIMEOUT_MS = "default.api.timeout.ms", 60_000  # Kafka's own default
DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")


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
        """Arguments of kafka-python's KafkaConnectionManager, from the properties; it has defaults for the others.

        Each call creates new ones in the process that uses them, because an SSLContext cannot be pickled.
        KafkaAdminClient accepts them too, except socket_connection_setup_timeout_ms and -_max_ms.
        """
        settings = {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": self.security_protocol,
            **self._settings,
        }
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
    """The checked properties, with the content of the files that they name.

    Raises BadClientProperty, UsageError for files that cannot be read; no message shows a secret.
    """
    given = {name.strip(): value.strip() for name, value in properties.items()}
    _require_known(given)
    resolved = config_providers.resolve(given)
    given = {name: value.strip() for name, value in resolved.properties.items()}
    try:
        return _checked(bootstrap_servers, given, Secrets(resolved.found))
    except UsageError as err:
        forms = Secrets(tuple(form for value in resolved.found for form in _as_checked(value)))
        raise type(err)(forms.hide(str(err))) from None


def _as_checked(value: str) -> set[str]:
    """The value and its words in the forms in which messages may show them."""
    words = {value, *re.split(r"[\s,;=\"']+", value)}
    return {form for word in words for form in (word, word.upper(), word.lower())} - {""}


def _checked(bootstrap_servers: str, given: Mapping[str, str], elsewhere: Secrets) -> ClientProperties:
    """The checked properties; `elsewhere`: values from config providers, which are hidden in messages."""
    notes = _notes_of_names(given)
    protocol = one_of("security.protocol", given.get("security.protocol", "PLAINTEXT").upper(), PROTOCOLS)
    found_tls = tls(given, notes) if protocol.endswith("SSL") else None
    found_sasl, secrets = sasl(given, notes) if protocol.startswith("SASL") else (None, Secrets())
    _note_what_has_no_effect(protocol, given, found_sasl, notes)
    return ClientProperties(
        bootstrap_servers=_addresses(bootstrap_servers),
        names=tuple(sorted(name for name in given if name in USED)),
        notes=tuple(notes),
        security_protocol=protocol,
        timeout_ms=whole_number(API_TIMEOUT, given.get(API_TIMEOUT, str(API_TIMEOUT_MS)), 0),
        _settings=_plain_settings(given),
        _tls=found_tls,
        _sasl=found_sasl,
        _secrets=secrets + Secrets(tuple(given[name] for name in SECRET if name in given)) + elsewhere,
    )


def _require_known(given: Mapping[str, str]) -> None:
    """Raises BadClientProperty for names that are refused, unknown names of security, and names that are probably
    mistyped ones, all in one message."""
    problems = [_about_unknown(name) for name in sorted(given) if _is_a_mistake(name)]
    if problems:
        raise BadClientProperty("; ".join(problems))


def _is_a_mistake(name: str) -> bool:
    if name in USED or name in PASSED_OVER or name.startswith(config_providers.PROVIDERS):
        return False
    is_near_a_used_one = bool(get_close_matches(name, USED, cutoff=MISTYPED))
    return name in REFUSED or name.startswith(SECURITY) or is_near_a_used_one or not re.fullmatch(NAME, name)


def _about_unknown(name: str) -> str:
    if name in REFUSED:
        return f"{name} is not used here: {REFUSED[name]}"
    nearest = did_you_mean(name, [*USED, *PASSED_OVER])
    # The name of a stray line may be a piece of a value, and so of a secret.
    if nearest or re.fullmatch(NAME, name):
        return f"{name} is not a property of Kafka's clients{nearest}"
    return (
        "a line is not a property of Kafka's clients (not shown, it may be part of a value): is a backslash missing "
        "at the end of the previous line?"
    )


def _notes_of_names(given: Mapping[str, str]) -> list[str]:
    over = sorted(given.keys() - set(USED))
    return [f"ignored, as not used here: {', '.join(over)}"] if over else []


def _note_what_has_no_effect(
    protocol: str, given: Mapping[str, str], found_sasl: Sasl | None, notes: list[str]
) -> None:
    for prefix, is_used in (("ssl.", protocol.endswith("SSL")), ("sasl.", protocol.startswith("SASL"))):
        without_effect = sorted(name for name in given if name.startswith(prefix) and name in USED)
        if without_effect and not is_used:
            notes.append(f"security.protocol is {protocol}: {', '.join(without_effect)} without effect")
    if found_sasl and protocol == "SASL_PLAINTEXT" and found_sasl.mechanism in ("PLAIN", "OAUTHBEARER"):
        notes.append(f"SASL_PLAINTEXT with {found_sasl.mechanism}: the password or token is sent in clear text")


def _plain_settings(given: Mapping[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = {"client_id": given.get("client.id") or CLIENT_ID}
    for name, least in NUMBERS.items():
        if name in given:
            settings[name.replace(".", "_")] = whole_number(name, given[name], least)
    if settings.get("connections_max_idle_ms") == -1:  # Kafka's: idle connections stay open
        settings["connections_max_idle_ms"] = NEVER_MS
    if "client.dns.lookup" in given:
        settings["client_dns_lookup"] = one_of("client.dns.lookup", given["client.dns.lookup"], DNS_LOOKUPS)
    sizes = {option: whole_number(name, given[name], -1) for name, option in BUFFERS.items() if name in given}
    if sizes:  # -1 is the system's own size
        wanted = [(socket.SOL_SOCKET, option, size) for option, size in sizes.items() if size >= 0]
        settings["socket_options"] = [*SOCKET_OPTIONS, *wanted]
    return settings


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
