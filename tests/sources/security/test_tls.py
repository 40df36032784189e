"""TLS from Kafka's properties, tested with handshakes."""

from __future__ import annotations

import os
import pickle
import re
import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import PrivateFormat

from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.cluster.connection import untrusted
from kgroups_spark.cluster.security import BadClientProperty, tls
from tests.sources.security.handshakes import chain, file_with, private_key, shake_hands

STORES = Path(__file__).parents[2] / "data" / "stores"
AUTHORITY = trustme.CA()
SERVER = AUTHORITY.issue_cert("localhost")
CLIENT = AUTHORITY.issue_cert("auditor@example.org")
TRUSTED = AUTHORITY.cert_pem.bytes().decode()
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": TRUSTED}


def context(properties):
    """The TLS context of these properties in another process."""
    return pickle.loads(pickle.dumps(tls(properties, []))).context()


def on_one_line(pem):
    """As a properties file with continuation lines has it."""
    return pem.replace("\n", " ").strip()


def test_a_truststore_is_a_file_or_a_text(tmp_path):
    file = tmp_path / "authority.pem"
    file.write_bytes(b"Owner: CN=\xfc\n" + TRUSTED.encode() + b"of \xe4ltere\n")
    for properties in (
        TRUST,
        {**TRUST, "ssl.truststore.certificates": on_one_line(TRUSTED)},
        {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(file)},
        {"ssl.truststore.location": str(file)},
    ):
        assert shake_hands(context(properties), SERVER).client is None


def test_authorities_outside_the_truststore_are_not_trusted():
    other = {**TRUST, "ssl.truststore.certificates": trustme.CA().cert_pem.bytes().decode()}
    for properties in (other, {}):
        with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer certificate"):
            shake_hands(context(properties), SERVER)


def test_as_in_java_an_intermediate_or_a_brokers_own_certificate_can_be_trusted():
    between = AUTHORITY.create_child_ca()
    server = between.issue_cert("localhost")
    for trusted in (between.cert_pem, server.cert_chain_pems[0]):
        assert shake_hands(context({**TRUST, "ssl.truststore.certificates": trusted.bytes().decode()}), server)


def test_names_of_hosts_are_checked_unless_the_algorithm_is_empty():
    for algorithm in ({}, {"ssl.endpoint.identification.algorithm": "HTTPS"}):
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            shake_hands(context({**TRUST, **algorithm}), SERVER, host="kafka.example.com")
    unchecked = context({**TRUST, "ssl.endpoint.identification.algorithm": ""})
    assert shake_hands(unchecked, SERVER, host="kafka.example.com")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(unchecked, trustme.CA().issue_cert("localhost"))


FAR = datetime(2091, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("server", "host", "advice"),
    [
        (
            AUTHORITY.issue_cert("localhost", not_after=datetime(2020, 1, 1, tzinfo=UTC)),
            "localhost",
            "certificate has expired",
        ),
        (
            AUTHORITY.issue_cert("localhost", not_before=datetime(2090, 1, 1, tzinfo=UTC), not_after=FAR),
            "localhost",
            "certificate is not yet valid",
        ),
        (SERVER, "kafka.example.com", "the broker's name must be in it"),
        (trustme.CA().issue_cert("localhost"), "localhost", r"ssl\.truststore\.location must have the authority"),
    ],
)
def test_a_bad_certificate_is_reported_with_advice(server, host, advice):
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        shake_hands(context(TRUST), server, host=host)
    said = str(untrusted(("b", 9093), refused.value))
    assert said.startswith("the certificate of b:9093 is not trusted: ") and re.search(advice, said)


def test_host_names_that_are_not_checked_are_noted():
    name = "ssl.endpoint.identification.algorithm"
    note = f"{name} is empty: host names are not checked, so any trusted certificate is accepted for any broker"
    assert note in client_properties("b:9092", {**TRUST, "security.protocol": "SSL", name: ""}).notes
    assert not any(name in each for each in client_properties("b:9092", {**TRUST, "security.protocol": "SSL"}).notes)


@pytest.mark.parametrize("password", [None, "hüsh"])
@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_a_keystore_is_a_file_of_certificates_and_key(tmp_path, password, form):
    key = private_key(CLIENT, password, form)
    for pem in (chain(CLIENT) + key, f"Bag Attributes\n{key}{chain(CLIENT)}"):
        properties = {
            **TRUST,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": file_with(pem, tmp_path),
            **({"ssl.key.password": password} if password else {}),
        }
        assert shake_hands(context(properties), SERVER, clients=AUTHORITY).client == "auditor@example.org"


def test_the_key_is_briefly_in_a_file_that_only_we_can_open(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    keystore = file_with(chain(CLIENT) + private_key(CLIENT), tmp_path)
    seen = []
    load = ssl.SSLContext.load_cert_chain

    def watched(self, path, **more):
        seen.append((oct(path.stat().st_mode & 0o777), oct(path.parent.stat().st_mode & 0o777), path.parent.parent))
        load(self, path, **more)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    old = os.umask(0)
    try:
        tls({"ssl.keystore.type": "PEM", "ssl.keystore.location": keystore}, []).context()
    finally:
        os.umask(old)
    assert seen == [("0o600", "0o700", tmp_path)] * 2
    assert [path.suffix for path in tmp_path.iterdir()] == [".pem"]


@pytest.mark.parametrize(
    ("properties", "version"),
    [
        ({}, "TLSv1.3"),
        ({"ssl.enabled.protocols": "TLSv1.2"}, "TLSv1.2"),
        ({"ssl.enabled.protocols": "TLSv1.3 , TLSv1.2"}, "TLSv1.3"),
        ({"ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1"}, "TLSv1.2"),
    ],
)
def test_versions_are_those_of_the_properties(properties, version):
    notes = []
    shaken = tls({**TRUST, **properties}, notes).context()
    assert (shake_hands(shaken, SERVER).version, notes) == (version, [])


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"ssl.enabled.protocols": "TLSv1.1"}, r"must have TLSv1\.2 or TLSv1\.3: older ones"),
        (
            {"ssl.endpoint.identification.algorithm": "ldaps"},
            "must be https, or empty for no check of host names, not 'ldaps'",
        ),
        ({**TRUST, "ssl.truststore.location": "x"}, "are both given: give one of them"),
        ({**TRUST, "ssl.truststore.certificates": "hush"}, r"ssl\.truststore\.certificates has no certificate"),
        (
            {**TRUST, "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----aHVzaA==-----END CERTIFICATE-----"},
            r"the certificates of ssl\.truststore\.\* cannot be read",
        ),
        ({"ssl.keystore.key": "hush"}, r"ssl\.keystore\.key and ssl\.keystore\.certificate\.chain go together"),
        ({"ssl.keystore.certificate.chain": "x"}, "go together: one is missing"),
    ],
)
def test_invalid_tls_properties_are_refused(properties, problem):
    with pytest.raises(BadClientProperty, match=problem) as caught:
        tls(properties, [])
    assert "hush" not in str(caught.value)


def test_keystores_that_cannot_be_used_are_refused(tmp_path):
    key, encrypted = private_key(CLIENT), private_key(CLIENT, "hush")
    other = private_key(AUTHORITY.issue_cert("x.example.org"))
    for pem, password, problem in [
        (chain(CLIENT), None, "has no private key: one is needed"),
        (chain(CLIENT) + key + other, None, "has 2 private keys: one is needed"),
        (key, None, "has no certificate: a PEM keystore has the certificate chain and its private key"),
        (chain(CLIENT) + other, None, "the private key does not fit the first certificate"),
        (chain(CLIENT) + encrypted, None, r"is encrypted: give ssl\.key\.password"),
        (chain(CLIENT) + encrypted, "wr0ng", r"ssl\.key\.password is wrong, or the key is damaged"),
        (chain(CLIENT) + key.replace(key[40:60], "A" * 20), None, "the private key or its certificates cannot be read"),
    ]:
        properties = {"ssl.keystore.type": "PEM", "ssl.keystore.location": file_with(pem, tmp_path)}
        with pytest.raises(BadClientProperty, match=problem) as caught:
            tls({**properties, **({"ssl.key.password": password} if password else {})}, [])
        assert "wr0ng" not in str(caught.value)
        assert not any(line in str(caught.value) for line in key.splitlines()[1:])


def test_unreadable_stores_are_refused_with_advice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my trust.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    (tmp_path / "key.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    (tmp_path / "key.p12").write_bytes(b"\x30\x82\x0a\x0b\x02\x01\x03\x30")
    (tmp_path / "x.pem").write_text(TRUSTED)
    (tmp_path / "x.txt").write_text("hello")
    for properties, problem in [
        (
            {"ssl.truststore.location": "my trust.jks", "ssl.truststore.password": "hush"},
            "ssl.truststore.location my trust.jks is a JKS store, which only Java reads. Convert it: keytool "
            "-importkeystore -srckeystore 'my trust.jks' -destkeystore 'my trust.p12' -deststoretype PKCS12 and set "
            "ssl.truststore.location=my trust.p12",
        ),
        (
            {"ssl.keystore.location": "key.jks"},
            "ssl.keystore.location key.jks is a JKS store, which only Java reads. Convert it: keytool "
            "-importkeystore -srckeystore key.jks -destkeystore key.p12 -deststoretype PKCS12 and set "
            "ssl.keystore.location=key.p12",
        ),
        (
            {"ssl.keystore.location": "key.p12", "ssl.keystore.type": "PKCS12", "ssl.keystore.password": "hush"},
            "ssl.keystore.location key.p12 cannot be read: ssl.keystore.password is wrong, or it is damaged",
        ),
        (
            {"ssl.truststore.location": "x.txt", "ssl.truststore.type": "PEM"},
            "ssl.truststore.location x.txt is neither PEM, with -----BEGIN ...-----, nor PKCS12",
        ),
    ]:
        with pytest.raises(BadClientProperty) as caught:
            tls(properties, [])
        assert str(caught.value) == problem


@pytest.mark.parametrize("more", [{}, {"ssl.keystore.type": "PKCS12", "ssl.truststore.type": "PKCS12"}])
@pytest.mark.parametrize("key_password", [{}, {"ssl.key.password": "changeit"}])
def test_pkcs12_stores_of_keytool_are_read(more, key_password):
    properties = {
        "ssl.truststore.location": str(STORES / "trust.p12"),
        "ssl.truststore.password": "changeit",
        "ssl.keystore.location": str(STORES / "key.p12"),
        "ssl.keystore.password": "changeit",
    }
    wanted = tls({**properties, **more, **key_password}, [])
    assert wanted.trusted is not None
    assert wanted.own is not None
    assert wanted.own.startswith(wanted.trusted)
    assert wanted.own.count("PRIVATE KEY-----") == 2
    assert wanted.context()
    assert "changeit" not in repr(wanted)
