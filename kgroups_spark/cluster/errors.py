"""Failures between us and a Kafka cluster, and Kafka's names for them."""

from __future__ import annotations

from kafka.errors import kafka_errors

from kgroups_spark.errors import KgroupsError


class ClusterUnreachable(KgroupsError):
    """No answer in the time allowed: nobody listens, a name does not resolve, connections break, brokers are silent."""


class AuthenticationFailed(KgroupsError):
    """The broker does not take our credentials, or its certificate is not one that we trust."""


class NotAuthorized(KgroupsError):
    """An ACL is missing; the text says which."""


class WrongProtocol(KgroupsError):
    """The port speaks another protocol than security.protocol says, or none of Kafka's."""


class KafkaRefused(KgroupsError):
    """A broker answered with an error that trying again does not cure."""


# Where kafka-python 3.0.12 keeps a name that Kafka has changed (Errors.java 4.3.1).
RENAMED = {
    -1: "UNKNOWN_SERVER_ERROR",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
}

# Somebody else leads the partition, or will in a moment: ask the metadata again.
LEADERSHIP = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "REPLICA_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
    }
)
# The broker cannot answer now. KAFKA_STORAGE_ERROR: its disk has failed, and another one is about to lead.
# UNKNOWN_SERVER_ERROR is tried again, as the Java consumer does (FetchCollector.java 4.3.1).
PASSING = LEADERSHIP | {
    "BROKER_NOT_AVAILABLE",
    "KAFKA_STORAGE_ERROR",
    "NETWORK_EXCEPTION",
    "OFFSET_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "UNKNOWN_SERVER_ERROR",
}
# The topic is not there; a broker that has just started says so of all topics for a while.
UNKNOWN_TOPIC = frozenset({"INCONSISTENT_TOPIC_ID", "UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PARTITION"})


def error_name(code: int) -> str | None:
    """Kafka's name of an error code; None: no error."""
    if code == 0:
        return None
    if code in RENAMED:
        return RENAMED[code]
    known = kafka_errors.get(code)
    return known.message if known else f"error {code}"


def not_authorized(operation: str, resource: str) -> NotAuthorized:
    """The error that names the ACL: `not_authorized("READ", "topic __consumer_offsets")`."""
    return NotAuthorized(f"not authorized: an ACL that allows {operation} on {resource} is needed")
