"""Logs that are read in nights, and tables without columns that may depend on the nights."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.logs.generated_logs import LOGS
from tests.logs.log_files import Files, of_one_leader, read_zip
from tests.nights.reported_tables import CURRENT, VERSIONS, Reported, Row

RELEASES = ("4.3", "4.0.0", "3.9", "3.7-java", "2.8")


@cache
def logs(release: str) -> dict[str, Files]:
    """Every fourth log; different ones for each of four releases."""
    found = read_zip(LOGS)
    return {name: of_one_leader(found[name]) for name in sorted(found)[RELEASES.index(release) % 4 :: 4]}


def reported(audited: Reported, files: Files) -> dict[str, Any]:
    """All results that must not depend on cuts. `files`: the segments, which may be cut in any way."""
    return {
        **{name: audited.rows(name) for name in (*CURRENT, *VERSIONS, "transaction_markers", "group_records")},
        "offset_commits": [without_outcome(row) for row in audited.rows("offset_commits")],
        "quarantine": [in_whole_log(row, files) for row in audited.rows("quarantine")],
        "traffic": audited.traffic(),
        "state": audited.state(),
        "topics": audited.rows("topics"),
        "record_counts": audited.record_counts(),
    }


def without_outcome(row: Row) -> Row:
    """The row without the columns that are null if its marker is outside the range that wrote it."""
    return {name: value for name, value in row.items() if name not in ("outcome", "marker_offset")}


def in_whole_log(row: Row, files: Files) -> Row:
    """The row with its byte position in the whole partition instead of a segment; rows of a replay have none."""
    if row["file"] is None:
        return row
    folder = f"__consumer_offsets-{row['offsets_partition']}/"
    before = sum(len(data) for path, data in files.items() if path.startswith(folder) and path < row["file"])
    return {**row, "file": folder, "file_position": before + row["file_position"]}
