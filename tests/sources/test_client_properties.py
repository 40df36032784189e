"""Properties of Kafka's Java clients as settings of kafka-python."""

from __future__ import annotations

import json
import logging
import pickle
import ssl
import traceback
from pathlib import Path

import pytest
import trustme

from kgroups_spark.cluster import sasl as oauth
from kgroups_spark.cluster.client_properties import (
    BadClientProperty,
    client_properties,
)
from kgroups_spark.cluster.security import read_properties_file
from kgroups_spark.errors import UsageError
from kgroups_spark.sources.files import parse_properties
from tests.sources.security.handshakes import chain, private_key

AUTHORITY = trustme.CA()
CLIENT = AUTHORITY.issue_cert("auditor@example.org")
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.cert_pem.bytes().decode()}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="hu%sh";'
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN, **TRUST}
SASL_SETTINGS = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": "hu%sh"}


def settings(properties):
    """The settings of these properties in another process."""
    return pickle.loads(pickle.dumps(client_properties("kafka:9092", properties))).settings()


def test_without_properties_the_client_uses_plaintext_and_our_client_id():
    client = client_properties(" kafka:9092, [::1]:9093 ,SASL_SSL://10.0.0.1:9094", {})
    assert client.bootstrap_servers == "kafka:9092,[::1]:9093,10.0.0.1:9094"
    assert client.settings() == {
        "client_id": "kgroups-spark",
        "request_timeout_ms": 30_000,
        "security_protocol": "PLAINTEXT",
    }
    assert client.notes == ()


def test_each_security_protocol_has_its_settings():
    base = {"client_id": "kgroups-spark", "request_timeout_ms": 30_000}
    for protocol in ("SSL", "SASL_PLAINTEXT", "SASL_SSL", "sasl_ssl"):
        found = settings({**SASL, "security.protocol": protocol})
        context = found.pop("ssl_context", None)
        with_sasl = SASL_SETTINGS if protocol.upper().startswith("SASL") else {}
        assert found == {**base, "security_protocol": protocol.upper(), **with_sasl}
        assert isinstance(context, ssl.SSLContext) == protocol.upper().endswith("SSL")


def test_the_timeout_is_default_api_timeout_ms():
    assert client_properties("kafka:9092", {}).timeout_ms == 60_000
    assert client_properties("kafka:9092", {"default.api.timeout.ms": "4000"}).timeout_ms == 4000
    with pytest.raises(
        BadClientProperty, match=r"default\.api\.timeout\.ms must be a whole number, 0 or more, not 'soon'"
    ):
        client_properties("kafka:9092", {"default.api.timeout.ms": "soon"})


def test_an_insecure_property_is_noted():
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}
    notes = client_properties("kafka:9092", properties).notes
    assert notes == ("SASL_PLAINTEXT with PLAIN: the password or token is sent in clear text",)


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"security.protocol": "SASL-SSL"}, r"^security\.protocol must be one of PLAINTEXT, .*; did you mean SASL_SSL"),
        (
            {"securty.protocol": "SSL"},
            r"^securty\.protocol is not a property of Kafka's clients; did you mean security\.pr",
        ),
        (
            {"sasl.jaas.conf": PLAIN},
            r"^sasl\.jaas\.conf is not a property of Kafka's clients; did you mean sasl\.jaas\.conf",
        ),
        ({"ssl.xyzzy": "1"}, r"^ssl\.xyzzy is not a property of Kafka's clients"),
        ({"hush": "1"}, r"^a line is not a property .* is a backslash missing at the end of the previous line\?$"),
        (
            {"password": '"hush";'},
            r"^password is not used here: .* is a backslash missing at the end of the previous line\?$",
        ),
        (
            {"sasl.username": "alice", "ssl.ca.location": "x"},
            r"^sasl\.username is not .*; ssl\.ca\.location is not a property",
        ),
        ({"request.timeout.ms": "30s"}, r"^request\.timeout\.ms must be a whole number, 1 or more, not '30s'$"),
        ({"request.timeout.ms": "0"}, r"^request\.timeout\.ms must be a whole number, 1 or more, not '0'$"),
        (
            {"config.providers": "env", "config.providers.env.class": "X"},
            r"^config\.providers is not used here: fill the values in first, for example --command-config <\(envsubst",
        ),
        (
            {"security.protocol": 'SASL_SSL sasl.jaas.config=X required password="hush";'},
            r"^security\.protocol must be one of .*, not a value of \d+ characters that is not shown$",
        ),
    ],
)
def test_invalid_client_properties_are_refused(properties, problem):
    with pytest.raises(BadClientProperty, match=problem) as caught:
        client_properties("kafka:9092", properties)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("servers", "problem"),
    [
        ("", "^no broker given"),
        (" , ", "^no broker given"),
        ("kafka", "^a broker must be host:port, such as kafka.example.com:9092, not 'kafka'$"),
        ("kafka:9092,kafka:x", "not 'kafka:x'$"),
        ("kafka:0", "not 'kafka:0'$"),
        ("kafka:65536", "not 'kafka:65536'$"),
        ("[::1]", r"not '\[::1\]'$"),
        ("alice:hush@kafka:9092", "not a value of 21 characters that is not shown$"),
    ],
)
def test_brokers_are_hosts_with_ports(servers, problem):
    with pytest.raises(BadClientProperty, match=problem):
        client_properties(servers, {})


@pytest.mark.parametrize(
    "name",
    [
        "auto.include.jmx.reporter",  # 3.4 to 3.9
        "bootstrap.resolve.timeout.ms",  # this one and the next: 4.4
        "metadata.cluster.check.enable",
    ],
)
def test_properties_that_not_all_releases_have_are_ignored(name):
    assert client_properties("kafka:9092", {name: "1"}).notes == (f"ignored, as not used here: {name}",)


def test_the_repr_names_properties_and_no_value():
    client = client_properties("kafka:9092", {**SASL, "client.id": "nightly"})
    assert (
        repr(client)
        == str(client)
        == (
            "ClientProperties(kafka:9092: client.id, sasl.jaas.config, sasl.mechanism, security.protocol, "
            "ssl.truststore.certificates, ssl.truststore.type)"
        )
    )
    assert repr(client_properties("kafka:9092", {})) == "ClientProperties(kafka:9092: no properties)"


def test_secrets_are_removed_from_texts():
    key = private_key(CLIENT, "k3y-pass")
    client = client_properties(
        "kafka:9092",
        {
            **SASL,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": chain(CLIENT),
            "ssl.key.password": "k3y-pass",
        },
    )
    hidden = client.without_secrets(f"alice hu%sh {PLAIN} hu%25sh k3y-pass {key}")
    assert hidden == "alice [hidden] [hidden] [hidden] [hidden] [hidden]"


def test_credentials_that_sasl_sends_are_removed_from_texts(monkeypatch, tmp_path):
    client = client_properties("kafka:9092", SASL)
    monkeypatch.setattr(oauth, "_issued", {})
    (tmp_path / "token").write_text("t0ken-of-a-file")
    bearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    properties = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": bearer}
    properties["sasl.oauthbearer.token.endpoint.url"] = f"file:{tmp_path}/token"
    client = client_properties("kafka:9092", {**SASL, **properties})
    token = client.settings()["sasl_oauth_token_provider"].token()
    assert client.without_secrets(f"Bearer {token}") == "Bearer [hidden]"


WRONG = [
    {},
    {"sasl.mechanism": "SCRAM-SHA-512"},
    {"sasl.mechanism": "GSSAPI"},
    {"sasl.jaas.config": PLAIN[:-1]},
    {"sasl.jaas.config": PLAIN.replace('"hu', "hu")},
    {"sasl.jaas.config": PLAIN.replace("username", "user")},
    {"sasl.jaas.config": "hu%sh"},
    {"ssl.key.password": "hu%sh-more"},
    {"ssl.keystore.type": "JKS"},
    {"ssl.keystore.password": "hu%sh"},
    {"ssl.truststore.password": "hu%sh"},
    {"ssl.keystore.key": "hu%sh"},
    {"ssl.keystore.certificate.chain": "hu%sh"},
    {"ssl.truststore.certificates": "hu%sh"},
    {"hu%sh": ""},
    {"password": "hu%sh"},
    {"request.timeout.ms": "hu%sh"},
    {"security.protocol": "hu%sh"},
    {"sasl.mechanism": "hu%sh"},
    {"sasl.oauthbearer.token.endpoint.url": "https://hu%sh@idp", "sasl.mechanism": "OAUTHBEARER"},
    {"sasl.oauthbearer.client.credentials.client.secret": "hu%sh"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: ", ".join(wrong) or "right")
def test_no_secret_is_in_a_message_a_traceback_or_a_log(wrong, caplog):
    caplog.set_level(logging.DEBUG)
    own = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": private_key(CLIENT, "hu%sh"),
        "ssl.keystore.certificate.chain": chain(CLIENT),
        "ssl.key.password": "hu%sh",
    }
    try:
        client = client_properties("kafka:9092", {**SASL, **own, **wrong})
        shown = f"{client!r} {client.notes} {client._tls!r} {client._sasl!r} {client._secrets!r}"
    except UsageError as err:
        shown = "".join(traceback.format_exception(err)) + repr(err)
    assert "hu%sh" not in shown + caplog.text


# Java's .properties syntax, as java.util.Properties (Java 17) reads the same bytes.
@pytest.mark.parametrize(
    ("content", "properties"),
    [
        (b'p=\\"q\\" \\t\\n\\r\\f \\q\\\\', {"p": '"q" \t\n\r\f q\\'}),
        (b"a=\\u00e4\\u20AC\\ud83d\\ude00", {"a": "ä€😀"}),
        ("a=ä".encode("iso-8859-1"), {"a": "ä"}),
        ("a=ä".encode(), {"a": "Ã¤"}),
        (b"\xef\xbb\xbfa=b", {"a": "b"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a=1\n\\", {"a": "1", "": ""}),
        (b"a=1\n\\\n", {"a": "1", "": ""}),
        (b"a=1\n\\\r\n", {"a": "1"}),
    ],
)
def test_a_file_is_read_as_java_reads_it(tmp_path, content, properties):
    """Characters and ends of a file; the syntax of its lines is that of random texts."""
    file = tmp_path / "client.properties"
    file.write_bytes(content)
    assert read_properties_file(str(file)) == properties


RECORDED = json.loads((Path(__file__).parents[1] / "data" / "java-properties.json").read_text())


def test_random_texts_are_read_as_javas_own_properties_read_them():
    """400 texts of backslashes, line ends, blanks, signs and letters, as Java 17 read them; null: it refused one."""
    for text, properties in RECORDED:
        if properties is None:
            with pytest.raises(UsageError, match="four hexadecimal digits"):
                parse_properties(text)
        else:
            assert parse_properties(text) == properties, text


def test_a_broken_escape_names_its_line_and_none_of_its_text(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("a=b\n\nsasl.jaas.config=x \\\n  password=\\u12zz\n")
    with pytest.raises(BadClientProperty) as caught:
        read_properties_file(str(file))
    assert str(caught.value) == (f"the properties file {file}: line 3 has a \\u without four hexadecimal digits")


def test_a_file_that_is_not_iso_8859_1_is_refused(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("a=b", encoding="utf-16")
    with pytest.raises(BadClientProperty, match=f"the properties file {file} is not ISO-8859-1 text"):
        read_properties_file(str(file))


@pytest.mark.parametrize(
    ("path", "problem"),
    [("none", "No such file or directory"), (".", "Is a directory"), ("file/below", "Not a directory")],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path, monkeypatch, path, problem):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=f"^the properties file {path} cannot be read: {problem}$"):
        read_properties_file(path)
