"""Logs that were written night after night, and cleaned."""

from __future__ import annotations

from tests.logs.cleaner import Files, GrowingLog


def written(files: Files) -> Files:
    """All of the log, never cleaned."""
    log = GrowingLog(files)
    for partition in log.partitions:
        log.append(partition, log.left(partition))
    return log.files
