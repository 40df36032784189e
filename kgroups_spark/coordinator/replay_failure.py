"""The failure that ends a real coordinator's load."""

from __future__ import annotations


class ReplayFailure(Exception):
    """A record that the release's coordinator fails to replay: it would serve nothing of the partition.

    It is raised after the state has changed as far as Kafka's own had when it threw, so that a caller who goes on ends
    where Kafka's classes end when the failing record is skipped.
    """
