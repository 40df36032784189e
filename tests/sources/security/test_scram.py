"""A client that authenticates with SCRAM refuses messages that a server must not send."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.cluster.cluster import Cluster
from kgroups_spark.cluster.sasl import LEAST_ITERATIONS, require_strong
from kgroups_spark.errors import KgroupsError
from tests.sources.fake_broker import FakeBroker

FIRST = b"n,,n=ali,r=abc"
SALT = b64encode(b"salt")


def answer(nonce: bytes = b"abcdef", salt: bytes = SALT, iterations: bytes = b"4096") -> bytes:
    return b"r=" + nonce + b",s=" + salt + b",i=" + iterations


@pytest.mark.parametrize(
    ("reported", "why"),
    [
        (answer(iterations=b"1"), "it requests 1 iterations, fewer than 4096"),
        (answer(iterations=b"4095"), "it requests 4095 iterations, fewer than 4096"),
        (answer(iterations=b"0"), "it requests 0 iterations, fewer than 4096"),
        (answer(nonce=b"abc"), "it adds nothing to our nonce"),
        (answer(nonce=b"xyzabc"), "it adds nothing to our nonce"),
        (answer(iterations=b"+1"), "it is not such a message of RFC 5802"),
        (answer(iterations=b" 1"), "it is not such a message of RFC 5802"),
        (answer(iterations=b"0_1"), "it is not such a message of RFC 5802"),
        (answer(iterations=b"x"), "it is not such a message of RFC 5802"),
        (answer(iterations="\u0661".encode()), "it is not such a message of RFC 5802"),
        (answer(iterations=b"1,i=4096"), "it is not such a message of RFC 5802"),
        (answer(iterations=b"4096,i=1"), "it is not such a message of RFC 5802"),
        (answer(iterations=b"4096\n"), "it is not such a message of RFC 5802"),
        (answer(salt=b""), "it is not such a message of RFC 5802"),
        (answer(salt=b"!"), "it is not such a message of RFC 5802"),
        (answer(salt=b"!c2FsdA=="), "it is not such a message of RFC 5802"),
        (answer(salt=b"c2FsdA"), "it is not such a message of RFC 5802"),
        (b"i=4096", "it is not such a message of RFC 5802"),
        (b"", "it is not such a message of RFC 5802"),
    ],
)
def test_messages_that_kafkas_clients_refuse_are_refused(reported: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        require_strong(FIRST, reported)


@pytest.mark.parametrize(
    "reported", [answer(), answer(iterations=b"1000000"), answer(iterations=b"4096,x=more"), b"e=unknown-user"]
)
def test_a_strong_message_and_a_refusal_are_left_to_the_mechanism(reported: bytes) -> None:
    require_strong(FIRST, reported)
    assert LEAST_ITERATIONS == 4096


def test_no_proof_is_sent_to_a_broker_that_asks_for_one_iteration() -> None:
    def first(request: Any) -> dict[str, Any]:
        nonce = request.auth_bytes.rpartition(b"r=")[2]
        reported = answer(nonce=nonce + b"x", iterations=b"1")
        return {"error_code": 0, "error_message": None, "auth_bytes": reported, "session_lifetime_ms": 0}

    answers = {"SaslHandshake": lambda _: {"error_code": 0, "mechanisms": ["SCRAM-SHA-256"]}, "SaslAuthenticate": first}
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{module} required username="ali" password="hush";',
    }
    with FakeBroker(answers) as broker, Cluster(client_properties(broker.address, properties)) as cluster:
        with pytest.raises(
            KgroupsError, match=r"requests too weak a SCRAM-SHA-256 handshake: it requests 1 iterations"
        ):
            cluster.brokers()
        assert len(broker.named("SaslAuthenticate")) == 1
