"""Failures between us and a Kafka cluster, and Kafka's names for them."""

from __future__ import annotations

from kafka.errors import kafka_errors

from kgroups_spark.errors import KgroupsError


class ClusterUnreachable(KgroupsError):
    """No answer in the time allowed: no listener, a name does not resolve, connections break, brokers are silent."""


class AuthenticationFailed(KgroupsError):
    """The broker rejected our credentials, or we do not trust its certificate."""


class NotAuthorized(KgroupsError):
    """An ACL is missing; the text names it."""


class WrongProtocol(KgroupsError):
    """The port's protocol differs from security.protocol, or is not Kafka's."""


class KafkaRefused(KgroupsError):
    """A broker answered with an error that is not retriable."""


class Throttled(KafkaRefused):
    """A broker throttles us for longer than we may wait."""


# Where kafka-python 3.0.12 keeps a name that Kafka has changed (Errors.java 4.3.1).
RENAMED = {
    -1: "UNKNOWN_SERVER_ERROR",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
}

# Another broker leads the partition, or will in a moment: ask for the metadata again.
LEADERSHIP = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "LISTENER_NOT_FOUND",
        "NOT_LEADER_OR_FOLLOWER",
        "REPLICA_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
    }
)
# The broker cannot answer now. KAFKA_STORAGE_ERROR: its disk has failed, and another one is about to lead.
# UNKNOWN_SERVER_ERROR is retried, as in the Java consumer (FetchCollector.java 4.3.1).
PASSING = LEADERSHIP | {
    "BROKER_NOT_AVAILABLE",
    "KAFKA_STORAGE_ERROR",
    "NETWORK_EXCEPTION",
    "OFFSET_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "UNKNOWN_SERVER_ERROR",
}
# The topic does not exist; a broker that has just started reports this for all topics for a while.
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
    return NotAuthorized(f"not authorized: grant {operation} on {resource}")
