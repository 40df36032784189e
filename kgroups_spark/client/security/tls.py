"""TLS from `ssl.*` properties, for Python's ssl.

`tls` reads the files. Its result is plain values that can be sent to other machines, which build an SSLContext from
them. The rules are those of Kafka 4.3: org.apache.kafka.common.security.ssl.DefaultSslEngineFactory.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kgroups_spark.client.property import BadClientProperty, shown
from kgroups_spark.client.security.hidden import Secrets
from kgroups_spark.client.security.pem import is_encrypted, private_keys
from kgroups_spark.client.security.stores import own_certificate, trusted_certificates
from kgroups_spark.client.security.tls_versions import spoken

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
ENGINE = "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory"


@dataclass(frozen=True)
class Tls:
    """The parts of an SSLContext. The text of this object shows no key."""

    trusted: str | None = None  # PEM certificates; None: those that the machine trusts
    own: str | None = field(default=None, repr=False)  # PEM: certificate chain, then its private key; None: none
    key_password: str | None = field(default=None, repr=False)
    checks_host_name: bool = True
    oldest: str = "TLSv1.2"
    newest: str = "TLSv1.3"

    def context(self) -> ssl.SSLContext:
        """A new context for clients. It raises no error on an object from `tls`, which has built it once already."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.checks_host_name
        context.minimum_version, context.maximum_version = VERSIONS[self.oldest], VERSIONS[self.newest]
        # As in Java, every certificate in the truststore is trusted, even an intermediate one or a broker's own.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        self.load_trusted(context)
        self.load_own(context)
        return context

    def load_trusted(self, context: ssl.SSLContext) -> None:
        """Loads the trusted certificates into the context. Raises ssl.SSLError for broken ones."""
        if self.trusted is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=self.trusted)

    def load_own(self, context: ssl.SSLContext) -> None:
        """Loads our key and certificate into the context. Raises ssl.SSLError for a broken key or certificate, a wrong
        password, or a key of another certificate.

        Python's ssl reads keys only from files: this one is in a folder that only we can open, and is deleted at once.
        """
        if self.own is None:
            return
        with tempfile.TemporaryDirectory(prefix="kgroups-") as folder:
            path = Path(folder) / "own.pem"
            path.touch(mode=0o600)
            path.write_text(self.own)
            # A function, even without a password: otherwise OpenSSL would ask for one on the terminal.
            context.load_cert_chain(path, password=lambda: self.key_password or "")

    def secrets(self) -> Secrets:
        """The private key, also line by line, and its password."""
        keys = private_keys(self.own or "")
        lines = [line for key in keys for line in key.splitlines()[1:-1] if len(line) >= 16]
        return Secrets((*keys, *lines, self.key_password or ""))


def tls(properties: Mapping[str, str], notes: list[str]) -> Tls:
    """TLS of the `ssl.*` properties; appends to `notes`. Raises BadClientProperty, UsageError for unreadable files."""
    if properties.get("ssl.engine.factory.class", ENGINE) != ENGINE:
        raise BadClientProperty("ssl.engine.factory.class is Java and cannot run here: leave it out")
    oldest, newest = spoken(properties, notes)
    wanted = Tls(
        trusted=trusted_certificates(properties),
        own=own_certificate(properties),
        key_password=properties.get("ssl.key.password"),
        checks_host_name=_checks_host_name(properties, notes),
        oldest=oldest,
        newest=newest,
    )
    _require_that_it_loads(wanted)
    return wanted


def _checks_host_name(properties: Mapping[str, str], notes: list[str]) -> bool:
    name = "ssl.endpoint.identification.algorithm"
    algorithm = properties.get(name, "https")
    if algorithm.lower() not in ("https", ""):
        raise BadClientProperty(f"{name} must be https, or empty for no check of host names, not {shown(algorithm)}")
    if not algorithm:
        notes.append(
            f"{name} is empty: host names are not checked, so any trusted certificate is accepted for any broker"
        )
    return algorithm != ""


def _require_that_it_loads(wanted: Tls) -> None:
    """Raises BadClientProperty if OpenSSL cannot read a certificate or the key. OpenSSL's reasons contain no secret."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        wanted.load_trusted(context)
    except ssl.SSLError as err:
        raise BadClientProperty(f"the certificates of ssl.truststore.* cannot be read: {_reason(err)}") from err
    try:
        wanted.load_own(context)
    except ssl.SSLError as err:
        if err.reason == "KEY_VALUES_MISMATCH":
            what = "the private key does not fit the first certificate, which must be the client's"
        elif is_encrypted(wanted.own or ""):
            what = f"the private key cannot be read: ssl.key.password is wrong, or the key is damaged ({_reason(err)})"
        else:
            what = f"the private key or its certificates cannot be read: {_reason(err)}"
        raise BadClientProperty(f"ssl.keystore.*: {what}") from err


def _reason(err: ssl.SSLError) -> str:
    return (err.reason or str(err)).replace("_", " ").lower()
