"""A real broker lets clients in by TLS and SASL, or a message says why not. No message and no log has a secret."""

from __future__ import annotations

import json
import logging
import pickle
import re
import time
import traceback
from base64 import urlsafe_b64encode
from itertools import permutations

import pytest
import trustme
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kgroups_spark.cluster import sasl as oauth_tokens
from kgroups_spark.cluster.client_properties import client_properties, read_properties_file
from kgroups_spark.cluster.cluster import Cluster
from kgroups_spark.cluster.requests import ClusterUnreachable
from kgroups_spark.errors import KgroupsError
from tests.broker.brokers import Brokers, Security
from tests.sources.security.handshakes import chain, private_key
from tests.sources.security.token_server import fresh_jwt, token_server

MODULES = "org.apache.kafka.common.security"
OAUTH = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
TOPIC = "t"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD = "auditor-s3cret"
# A name that SCRAM has to escape, and a password that JAAS and properties files have to.
ODD_NAME, ODD_PASSWORD = "aud=it,or", 'pässw"o\\rd =:#!,;'
ENDPOINT_SECRET = "endp0int-secret"
SECRETS = (PASSWORD, ODD_PASSWORD, ENDPOINT_SECRET, "wr0ng-password", "bm90LWEtdG9rZW4")


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A broker with every protocol, and a topic of one record. SSL wants a client's certificate, OAUTHBEARER takes
    unsecured tokens."""
    properties = {
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f'{OAUTH} unsecuredLoginStringClaim_sub="x";',
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
    }
    security = Security(listeners=("SASL_SSL", "SSL", "SASL_PLAINTEXT"), users={"auditor": PASSWORD})
    with Brokers("4.3.1", tmp_path_factory.mktemp("secured") / "brokers", properties, security=security) as brokers:
        admin = AdminClient({"bootstrap.servers": brokers.address})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        odd = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        user = UserScramCredentialUpsertion(ODD_NAME, odd, ODD_PASSWORD.encode())
        admin.alter_user_scram_credentials([user])[ODD_NAME].result(30)
        producer = Producer({"bootstrap.servers": brokers.address})
        producer.produce(TOPIC, b"a value")
        assert producer.flush(30) == 0
        yield brokers


@pytest.fixture(autouse=True)
def no_secret_is_logged(caplog, monkeypatch):
    """No logger writes a secret at level DEBUG, kafka-python's included."""
    monkeypatch.setattr(oauth_tokens, "_issued", {})
    monkeypatch.setenv("no_proxy", "localhost")
    caplog.set_level(logging.DEBUG)
    yield
    assert_no_secret(caplog.text)


def assert_no_secret(text):
    assert [secret for secret in SECRETS if secret in text] == []


def trust(brokers):
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(brokers.certificates.authority)}


def own_certificate(brokers):
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(brokers.certificates.client)}


def password(mechanism, password=PASSWORD):
    module = f"{MODULES}.plain.PlainLoginModule" if mechanism == "PLAIN" else f"{MODULES}.scram.ScramLoginModule"
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="auditor" password="{password}";',
    }


def properties_of(protocol, brokers, **more):
    found = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        found |= trust(brokers)
    if protocol == "SSL":
        found |= own_certificate(brokers)
    if protocol.startswith("SASL"):
        found |= password("SCRAM-SHA-512")
    return found | more


def oauth(url):
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{OAUTH};",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.credentials.client.id": "me",
        "sasl.oauthbearer.client.credentials.client.secret": ENDPOINT_SECRET,
    }


def what_is_seen(address, properties):
    """The topics, and whether the record is fetched, in a process that was sent the properties."""
    client = pickle.loads(pickle.dumps(client_properties(address, properties)))
    assert_no_secret(repr(client))
    with Cluster(client) as cluster:
        topics = sorted(cluster.topics())
        return topics, b"a value" in bytes(cluster.fetch(TOPIC, 0, 0, max_bytes=1 << 20).records)


def refusal(kind, address, properties, **more):
    """The message to a client that is not let in."""
    with pytest.raises(kind) as caught, Cluster(client_properties(address, properties), **more) as cluster:
        cluster.topics()
    assert_no_secret("".join(traceback.format_exception(caught.value)))
    return str(caught.value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_reads(secured, protocol):
    assert what_is_seen(secured.addresses(protocol), properties_of(protocol, secured)) == ([TOPIC], True)


def test_every_mechanism_reads(secured, tmp_path):
    """The brokers take unsecured tokens."""
    parts = ({"alg": "none"}, {"sub": "me", "iat": time.time(), "exp": time.time() + 3600})
    header, claims = (urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts)
    (tmp_path / "token").write_text(f"{header}.{claims}.")
    bearer = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{OAUTH};"}
    bearer["sasl.oauthbearer.token.endpoint.url"] = f"file:{tmp_path}/token"
    for who in (password("PLAIN"), password("SCRAM-SHA-512"), bearer):
        assert what_is_seen(secured.addresses("SASL_SSL"), properties_of("SASL_SSL", secured) | who) == ([TOPIC], True)


def test_a_properties_file_with_an_odd_name_and_password_is_understood(secured, tmp_path):
    file = tmp_path / "client.properties"
    file.write_text(
        f"""security.protocol = SASL_SSL
sasl.mechanism = SCRAM-SHA-256
sasl.jaas.config = {MODULES}.scram.ScramLoginModule required \\
    username="{ODD_NAME}" \\
    password="p\\u00e4ssw\\\\"o\\\\\\\\rd =:#!,;";
ssl.truststore.type = PEM
ssl.truststore.location = {trust(secured)["ssl.truststore.location"]}
"""
    )
    properties = read_properties_file(str(file))
    assert what_is_seen(secured.addresses("SASL_SSL"), properties) == ([TOPIC], True)


def test_a_token_from_an_endpoint_lets_the_client_in(secured):
    header, claims, _ = fresh_jwt().split(".")
    with token_server({"access_token": f"{header}.{claims}."}) as server:
        properties = properties_of("SASL_SSL", secured) | oauth(server.url)
        assert what_is_seen(secured.addresses("SASL_SSL"), properties) == ([TOPIC], True)
    assert len(server.asked) == 1


def test_a_refusal_of_the_token_endpoint_is_not_blamed_on_the_broker(secured):
    with token_server((401, {"error": "invalid_client"})) as server:
        said = refusal(
            KgroupsError, secured.addresses("SASL_SSL"), properties_of("SASL_SSL", secured) | oauth(server.url)
        )
    assert said == (
        f"no token from {server.url} (sasl.oauthbearer.token.endpoint.url) for client me: HTTP 401, invalid_client"
    )


def test_a_token_that_the_broker_refuses(secured):
    with token_server({"access_token": "bm90LWEtdG9rZW4.bm90LWEtdG9rZW4."}) as server:
        properties = properties_of("SASL_SSL", secured) | oauth(server.url)
        said = refusal(KgroupsError, secured.addresses("SASL_SSL"), properties)
    assert "rejected our OAUTHBEARER credentials" in said


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password(secured, mechanism):
    properties = properties_of("SASL_SSL", secured) | password(mechanism, password="wr0ng-password")
    said = refusal(KgroupsError, secured.addresses("SASL_SSL"), properties)
    assert f"rejected our {mechanism} credentials: SASL_AUTHENTICATION_FAILED" in said


def test_a_mechanism_that_the_port_does_not_have(secured):
    properties = properties_of("SASL_PLAINTEXT", secured) | password("PLAIN")
    said = refusal(KgroupsError, secured.addresses("SASL_PLAINTEXT"), properties)
    assert "does not support sasl.mechanism PLAIN on this port; it has SCRAM-SHA-512" in said


TLS = "uses TLS: set security.protocol to SSL or SASL_SSL"
NO_TLS = "; is security.protocol that of the port, with TLS and SASL, or without?"
NO_SASL = "has no SASL on this port: set security.protocol to {port}"
IS_SASL = "requires SASL on this port: set security.protocol to {port} and sasl.mechanism to one of "


@pytest.mark.parametrize(("protocol", "port"), list(permutations(PROTOCOLS, 2)))
def test_a_port_of_another_protocol(secured, protocol, port):
    has_tls, wants_tls = (each.endswith("SSL") for each in (protocol, port))
    if has_tls == wants_tls:
        problem = IS_SASL if port.startswith("SASL") else NO_SASL
    else:
        problem = TLS if wants_tls else NO_TLS
    # A certificate that the port wants hides no other mistake.
    properties = properties_of(protocol, secured) | (own_certificate(secured) if port == "SSL" else {})
    properties |= {"default.api.timeout.ms": "3000"}
    error = ClusterUnreachable if problem == NO_TLS else KgroupsError
    said = refusal(error, secured.addresses(port), properties)
    assert problem.format(port=port) in said


def test_a_client_without_a_certificate_or_with_an_untrusted_one(secured):
    without = {"security.protocol": "SSL", **trust(secured)}
    strange = trustme.CA().issue_cert("auditor@example.org")
    with_strange = {
        **without,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": private_key(strange),
        "ssl.keystore.certificate.chain": chain(strange),
    }
    for properties in (without, {**without, "ssl.enabled.protocols": "TLSv1.2"}, with_strange):
        said = refusal(KgroupsError, secured.addresses("SSL"), properties)
        assert re.search(
            r"rejected our side of the TLS handshake .* client certificate \(ssl\.keystore\.location\)", said
        )
