"""The failure that ends a real coordinator's load."""

from __future__ import annotations


class ReplayFailure(Exception):
    """A record that the release's coordinator fails to replay: it would serve nothing of the partition.

    It is raised after the state has changed as far as Kafka's own had when it threw, so that a caller who goes on ends
    where Kafka's classes end when the failing record is skipped.
    """


def unknown_version(record_type: int, value_version: int) -> str:
    """Why a load fails at the value of an offset commit, in Kafka's words."""
    return f"Found an unknown record version {value_version} for {record_type} type"
