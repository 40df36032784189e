"""The failure that ends a real coordinator's load."""

from __future__ import annotations


class ReplayFailure(Exception):
    """A record that the release's coordinator fails to replay: it would serve nothing of the partition.

    The exception is raised after the changes that Kafka's classes make before they throw. So a caller that goes on
    reaches the state of Kafka's classes with the failing record skipped.
    """


def unknown_version(record_type: int, value_version: int) -> str:
    """Kafka's message for a value of an unknown version."""
    return f"Found an unknown record version {value_version} for {record_type} type"
