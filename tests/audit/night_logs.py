"""Logs that are read in nights, and tables without what nights may see otherwise."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

from tests.audit.generated_logs import LOGS
from tests.audit.pipeline import (
    CURRENT,
    VERSIONS,
    Audited,
    Files,
    Row,
    read_zip,
)

RELEASES = ("4.3", "4.0.0", "3.9", "3.7-java", "2.8")


@cache
def logs(release: str) -> dict[str, Files]:
    """Every fourth log, other ones for each of four releases."""
    found = read_zip(LOGS)
    return {name: found[name] for name in sorted(found)[RELEASES.index(release) % 4 :: 4]}


def told(audited: Audited) -> dict[str, Any]:
    """Everything that must not depend on cuts."""
    return {
        **{name: audited.rows(name) for name in (*CURRENT, *VERSIONS, "transaction_markers", "group_records")},
        "offset_commits": [without_outcome(row) for row in audited.rows("offset_commits")],
        "quarantine": audited.rows("quarantine"),
        "traffic": audited.traffic(),
        "state": audited.state(),
        "topics": sorted(audited.names.rows(), key=str),
        "record_counts": sum((each.record_counts for each in audited.progress), Counter()),
    }


def without_outcome(row: Row) -> Row:
    """The row but for what is null where its marker lies outside the range that wrote it."""
    return {name: value for name, value in row.items() if name not in ("outcome", "marker_offset")}
