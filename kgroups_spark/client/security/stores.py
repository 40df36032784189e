"""Truststores and keystores of a Kafka client as PEM texts.

Kafka 4.3 (org.apache.kafka.common.security.ssl.DefaultSslEngineFactory) accepts JKS, PKCS12 and PEM. Only Java reads
JKS, so it is refused, with the command that converts it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from kgroups_spark.client.properties_file import read_bytes
from kgroups_spark.client.property import BadClientProperty, one_of
from kgroups_spark.client.security.pem import certificates, is_encrypted, private_keys
from kgroups_spark.client.security.pkcs12 import pem_of_pkcs12

KINDS = ("JKS", "PKCS12", "PEM")
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
    """The source of a PEM text and the text itself: `text`, or a file's; None: none was given. Refuses JKS."""
    location = properties.get(f"ssl.{store}.location")
    kind_name = f"ssl.{store}.type"
    kind = one_of(kind_name, properties.get(kind_name, "JKS").upper(), KINDS)
    has_password = bool(properties.get(f"ssl.{store}.password"))
    if location is not None and text is not None:
        raise BadClientProperty(f"ssl.{store}.location and {name_of_text} are both given: give one of them")
    if location is None and text is None:
        if has_password:
            raise BadClientProperty(f"ssl.{store}.password is given, but no ssl.{store}.location")
        return None
    if text is not None:
        if kind != "PEM":
            raise BadClientProperty(f"{name_of_text} is PEM: set {kind_name}=PEM")
        source = name_of_text
    else:
        assert location is not None
        source = f"ssl.{store}.location {location}"
        content = read_bytes(location, f"ssl.{store}.location")
        found = _readable_kind(store, location, content, kind if kind_name in properties else None)
        if found == "PKCS12":
            return source, _text_of_pkcs12(store, source, content, properties)
        text = content.decode("iso-8859-1")  # other text around the blocks may be in any encoding
    if has_password:
        raise BadClientProperty(
            f"ssl.{store}.password is for JKS and PKCS12; a PEM {store} has no password: leave it out"
            + (" (ssl.key.password is that of the key)" if store == "keystore" else "")
        )
    return source, text


def _readable_kind(store: str, path: str, content: bytes, kind: str | None) -> str:
    """PEM or PKCS12. `kind`: the value of ssl.<store>.type; None: not set, which means JKS in Java. Java's JKS also
    reads PKCS#12 (keystore.type.compat), and a PEM file is accepted if the type is not set. Raises BadClientProperty
    for any other kind."""
    found = _kind_of(content)
    if found in ("JKS", "JCEKS"):
        raise BadClientProperty(
            f"ssl.{store}.location {path} is a {found} store, which only Java reads. " + _convert(store, path)
        )
    if found is None:
        raise BadClientProperty(f"ssl.{store}.location {path} is neither PEM, with -----BEGIN ...-----, nor PKCS12")
    if kind is not None and (found == "PEM") != (kind == "PEM"):
        raise BadClientProperty(f"ssl.{store}.location {path} is {found}, not {kind}: set ssl.{store}.type={found}")
    return found


def _text_of_pkcs12(store: str, source: str, content: bytes, properties: Mapping[str, str]) -> str:
    password, key_password = properties.get(f"ssl.{store}.password"), properties.get("ssl.key.password")
    if store == "keystore" and key_password not in (None, password):
        raise BadClientProperty(
            "ssl.key.password is not ssl.keystore.password, and a PKCS12 keystore has one password: leave it out"
        )
    try:
        return pem_of_pkcs12(content, password)
    except ValueError as error:
        wrong = "is wrong" if password else "is not given"
        raise BadClientProperty(f"{source} cannot be read: ssl.{store}.password {wrong}, or it is damaged") from error


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
        f"-deststoretype PKCS12 and set ssl.{store}.type=PKCS12 and ssl.{store}.location={p12}"
    )
