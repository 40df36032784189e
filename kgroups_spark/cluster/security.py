"""The values of a Kafka client's properties: numbers, words, secrets, login modules; and TLS from `ssl.*`, for Python's
ssl.

`tls` reads the files. Its result is plain values that can be sent to other machines, which build an SSLContext from
them. The rules are those of Kafka 4.3: org.apache.kafka.common.security.ssl.DefaultSslEngineFactory.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import ssl
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, quote_plus

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

from kgroups_spark.errors import UsageError
from kgroups_spark.sources.files import parse_properties
from kgroups_spark.words import did_you_mean


class BadClientProperty(UsageError):
    """A property that is unknown, invalid, or cannot be used here. The message shows no secret."""


def shown(value: str) -> str:
    """The value for messages, unless it is long or odd: a broken line can contain the next one's secret."""
    if re.fullmatch(r"[\w.,:/\[\] -]{0,60}", value):
        return repr(value)
    return f"a value of {len(value)} characters that is not shown"


def whole_number(name: str, value: str, at_least: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", value) or int(value) < at_least:
        raise BadClientProperty(f"{name} must be a whole number, {at_least} or more, not {shown(value)}")
    return int(value)


def one_of(name: str, value: str, known: Iterable[str]) -> str:
    """The known word that `value` is. Raises BadClientProperty with the nearest ones."""
    words = list(known)
    if value not in words:
        nearest = did_you_mean(value, words)
        raise BadClientProperty(f"{name} must be one of {', '.join(words)}, not {shown(value)}{nearest}")
    return value


def listed(value: str) -> list[str]:
    """The items of a list as Kafka writes it: separated by commas, blanks around them dropped."""
    return [item.strip() for item in value.split(",") if item.strip()]


# Files with a client's properties, as Kafka's tools read them for --command-config (sources/files.py).


def read_properties_file(path: str) -> dict[str, str]:
    """Names and values. Raises UsageError if the file cannot be read, BadClientProperty if it is not text."""
    content = read_bytes(path, "the properties file")
    if b"\0" in content:
        raise BadClientProperty(f"the properties file {path} is not ISO-8859-1 text, as Java reads it")
    try:
        return parse_properties(content.removeprefix(b"\xef\xbb\xbf").decode("iso-8859-1"))
    except UsageError as err:
        raise BadClientProperty(f"the properties file {path}: {err}") from err


def read_bytes(path: str, what: str) -> bytes:
    """The whole file. Raises UsageError; its text has `what` the file is."""
    try:
        return Path(path).read_bytes()
    except OSError as err:
        raise UsageError(f"{what} {path} cannot be read: {os.strerror(err.errno or 0)}") from err
    except ValueError as err:
        raise UsageError(f"{what} cannot be read: its path contains a NUL") from err


# Removal of secrets from texts, in any of their written forms.


HIDDEN = "[hidden]"
# A shorter secret is hidden only as a separate word: a password "a" would hide every a in a message.
SHORTEST_WITHIN_WORDS = 4


@dataclass(frozen=True, repr=False)
class Secrets:
    """Values that no message, log or table may show; neither does the text of this object."""

    values: tuple[str, ...] = ()

    def __add__(self, other: Secrets) -> Secrets:
        return Secrets(self.values + other.values)

    def hide(self, text: str) -> str:
        """The text with HIDDEN for each secret: as it is, escaped as by repr or JSON, or URL-encoded."""
        written = {form for value in self.values if value.strip() for form in _forms(value)}
        if not written:
            return text
        # The longest comes first, because a password can be a part of another secret.
        patterns = [_pattern(form) for form in sorted(written, key=len, reverse=True)]
        return re.sub("|".join(patterns), HIDDEN, text)


def _forms(value: str) -> set[str]:
    utf8 = value.encode(errors="surrogatepass")
    escaped = (
        repr(value)[1:-1],
        repr(utf8)[2:-1],
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
    )
    return {value, value.strip(), *escaped, quote(utf8), quote(utf8, safe=""), quote_plus(utf8)}


def _pattern(form: str) -> str:
    pattern = re.escape(form)
    return pattern if len(form) >= SHORTEST_WITHIN_WORDS else rf"(?<!\w){pattern}(?!\w)"


# The login module of `sasl.jaas.config`: `<class> required <option>="<value>" ... ;`
#
# Read as Kafka 4.3 reads it (org.apache.kafka.common.security.JaasConfig, over java.io.StreamTokenizer): a value is a
# quoted text or a word of letters, digits, `.`, `-`, `_` and `$` that starts with a letter; backslashes escape within
# quotes; /* */ and // are comments. No message shows any of it but the class and the names of known options.


JAAS_CONFIG = "sasl.jaas.config"
FLAGS = ("required", "requisite", "sufficient", "optional")
# Platforms rename Kafka's packages (Databricks); the classes are the same.
SHADED = "kafkashaded."

LETTER = "A-Za-z_$\u00a0-\U0010ffff"
TOKEN = re.compile(
    rf"""(?P<blank>[\0-\ ]+ | /\*.*?(?:\*/|\Z) | /[^\r\n]*)
       | (?P<word>[{LETTER}][{LETTER}0-9.\-]*)
       | "(?P<double>(?:\\[^\r\n]|[^"\\\r\n])*)"
       | '(?P<single>(?:\\[^\r\n]|[^'\\\r\n])*)'
       | (?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class LoginModule:
    """A Java class and its options, by name."""

    class_name: str
    options: Mapping[str, str] = field(repr=False)


def login_module(config: str) -> LoginModule:
    """The only login module in the text. Raises BadClientProperty, without any part of the text that may be secret."""
    tokens = list(_tokens(config))
    signs = "".join(text if kind == "sign" else "x" for kind, text in tokens)
    if not re.fullmatch("xx(x=x)*;", signs) or tokens[1][1].lower() not in FLAGS:
        raise BadClientProperty(
            f"{JAAS_CONFIG} is not one login module: it is a line like "
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="..." password="..."; '
            "with a semicolon at its end. Put a value with other characters than letters and digits in quotes; a "
            'double quote or a backslash within them is \\" or \\\\ (in a properties file \\\\" or \\\\\\\\)'
        )
    words = [text for kind, text in tokens[2:] if kind != "sign"]
    return LoginModule(tokens[0][1].removeprefix(SHADED), dict(zip(words[::2], words[1::2], strict=True)))


def _tokens(config: str) -> Iterator[tuple[str, str]]:
    """("word" or "quoted" or "sign", text): signs are all other characters, such as = and ; and digits."""
    for match in TOKEN.finditer(config):
        if match.lastgroup in ("word", "sign"):
            yield match.lastgroup, match[0]
        elif match.lastgroup in ("double", "single"):
            yield "quoted", _unescaped(match[match.lastgroup])


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 8))
        return ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:([0-3][0-7]{0,2}|[4-7][0-7]?)|(.))", one, text, flags=re.DOTALL)


# Blocks of PEM texts, with other text around or on one line, as Kafka accepts them; returned as OpenSSL needs them:
# separate lines for the marks, 64 characters a line.


BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


def certificates(text: str) -> list[str]:
    """The certificates of a PEM text, in order; those of other labels (TRUSTED CERTIFICATE) are left out."""
    return [_block(label, body) for label, body in BLOCK.findall(text) if label in ("CERTIFICATE", "X509 CERTIFICATE")]


def private_keys(text: str) -> list[str]:
    """The private keys of a PEM text. Kafka accepts only PKCS#8; OpenSSL accepts the older forms, too."""
    return [_block(label, body) for label, body in BLOCK.findall(text) if label.endswith("PRIVATE KEY")]


def is_encrypted(key: str) -> bool:
    return "BEGIN ENCRYPTED PRIVATE KEY" in key or "Proc-Type: 4,ENCRYPTED" in key


def _block(label: str, body: str) -> str:
    if "Proc-Type:" in body:  # headers of the older encrypted form need separate lines
        lines = body.strip("\r\n").splitlines()
    else:
        lines = textwrap.wrap("".join(body.split()), 64)
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


# PKCS#12 stores, as keytool and openssl write them, as PEM texts.


def pem_of_pkcs12(content: bytes, password: str | None) -> str:
    """The store's certificates, that of the private key first, then the unencrypted key; a truststore has none. Raises
    ValueError for a wrong password or damage, which cannot be distinguished."""
    store = load_pkcs12(content, None if password is None else password.encode())
    found = [store.cert, *store.additional_certs]
    pem = b"".join(each.certificate.public_bytes(Encoding.PEM) for each in found if each is not None)
    if store.key is not None:
        pem += store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode("ascii")


# Truststores and keystores as PEM texts. Kafka 4.3 (DefaultSslEngineFactory) accepts JKS, PKCS12 and PEM. Only Java
# reads JKS, so it is refused, with the command that converts it.


# The first bytes of a store: the magic number of Java's own kinds, or PKCS#12's version 3 after the total length.
MAGIC = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
PKCS12_VERSION = b"\x02\x01\x03"


def trusted_certificates(properties: Mapping[str, str]) -> str | None:
    """The certificates of the truststore as PEM; None: no truststore. Raises BadClientProperty, UsageError."""
    name = "ssl.truststore.certificates"
    pem = _pem(properties, "truststore", name, properties.get(name))
    if pem is None:
        return None
    source, text = pem
    found = certificates(text)
    if not found:
        raise BadClientProperty(f"{source} has no certificate: it is PEM with -----BEGIN CERTIFICATE-----")
    return "".join(found)


def own_certificate(properties: Mapping[str, str]) -> str | None:
    """Our certificate chain, then its private key, as PEM; None: no keystore. Raises BadClientProperty, UsageError."""
    key, chain = properties.get("ssl.keystore.key"), properties.get("ssl.keystore.certificate.chain")
    if (key is None) != (chain is None):
        raise BadClientProperty("ssl.keystore.key and ssl.keystore.certificate.chain go together: one is missing")
    both = None if key is None or chain is None else f"{chain}\n{key}"
    pem = _pem(properties, "keystore", "ssl.keystore.key", both)
    if pem is None:
        return None
    source, text = pem
    keys, found = private_keys(text), certificates(text)
    if len(keys) != 1:
        raise BadClientProperty(
            f"{source} has {len(keys) or 'no'} private key{'s' if len(keys) > 1 else ''}: one is needed, in PEM, "
            "with -----BEGIN PRIVATE KEY----- or -----BEGIN ENCRYPTED PRIVATE KEY-----"
        )
    if not found:
        raise BadClientProperty(
            f"{source} has no certificate: a PEM keystore has the certificate chain and its private key"
        )
    if is_encrypted(keys[0]) and not properties.get("ssl.key.password"):
        raise BadClientProperty(f"the private key of {source} is encrypted: give ssl.key.password")
    return "".join([*found, *keys])


def _pem(properties: Mapping[str, str], store: str, name_of_text: str, text: str | None) -> tuple[str, str] | None:
    """The source of a PEM text and the text itself: `text`, or a file's, whose content (not ssl.*.type) shows its kind;
    None: none was given. Refuses JKS."""
    location = properties.get(f"ssl.{store}.location")
    if location is None:
        return None if text is None else (name_of_text, text)
    if text is not None:
        raise BadClientProperty(f"ssl.{store}.location and {name_of_text} are both given: give one of them")
    source = f"ssl.{store}.location {location}"
    content = read_bytes(location, f"ssl.{store}.location")
    kind = _kind_of(content)
    if kind == "PKCS12":
        password = properties.get(f"ssl.{store}.password")
        try:
            return source, pem_of_pkcs12(content, password)
        except ValueError as error:
            why = f"ssl.{store}.password {'is wrong' if password else 'is not given'}, or it is damaged"
            raise BadClientProperty(f"{source} cannot be read: {why}") from error
    if kind == "PEM":
        return source, content.decode("iso-8859-1")  # other text around the blocks may be in any encoding
    if kind is None:
        raise BadClientProperty(f"{source} is neither PEM, with -----BEGIN ...-----, nor PKCS12")
    raise BadClientProperty(f"{source} is a {kind} store, which only Java reads. {_convert(store, location)}")


def _kind_of(content: bytes) -> str | None:
    if content[:4] in MAGIC:
        return MAGIC[content[:4]]
    if content[:1] == b"\x30" and PKCS12_VERSION in content[2:9]:
        return "PKCS12"
    return "PEM" if b"-----BEGIN " in content else None


def _convert(store: str, path: str) -> str:
    p12 = f"{path.rpartition('.')[0] or path}.p12"
    return (
        f"Convert it: keytool -importkeystore -srckeystore {shlex.quote(path)} -destkeystore {shlex.quote(p12)} "
        f"-deststoretype PKCS12 and set ssl.{store}.location={p12}"
    )


VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


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
        """Loads our key and certificate into the context, from a folder that only we can open: Python's ssl reads
        files. Raises ssl.SSLError if either is broken, for a wrong password, or a key of another certificate."""
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
    enabled = listed(properties.get("ssl.enabled.protocols", "")) or [*VERSIONS]
    spoken = [version for version in VERSIONS if version in enabled]
    if not spoken:
        raise BadClientProperty(f"ssl.enabled.protocols must have {' or '.join(VERSIONS)}: older ones are not spoken")
    wanted = Tls(
        trusted=trusted_certificates(properties),
        own=own_certificate(properties),
        key_password=properties.get("ssl.key.password"),
        checks_host_name=_checks_host_name(properties, notes),
        oldest=spoken[0],
        newest=spoken[-1],
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
