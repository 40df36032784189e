"""View expiry_outcomes over a recording; expiry_outcomes.txt has its cases."""

from __future__ import annotations

import io

import pytest

from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import read_segment
from tests.chosen import one_of
from tests.logs.corpora import ANSWERS, files_of
from tests.logs.log_files import Border, borders, files_of_nights, segments_of
from tests.nights.nights_here import How, new_lake
from tests.views.arrow_tables import in_duckdb, rows_of

RECORDED = ANSWERS["expiry-4.3-after"]
FILES = files_of("expiry-4.3-after")


@pytest.mark.parametrize("partition", one_of(*segments_of(FILES)))
def test_offsets_removed_by_each_clean_up_of_a_broker_are_reported(partition):
    """An audit before each clean-up of 4.3.1, and one after it: the view reports exactly its removals as `removed`."""
    restarted_at = ANSWERS["expiry-4.3-before"]["ends"][str(partition)]
    checks = [check for check in tombstone_batches(partition) if check[0].next_offset >= restarted_at]
    assert checks
    places = {border.next_offset: border for border in borders(FILES, partition)}
    audited, how, removed_by_all = new_lake(), How("4.3", retention_ms=RECORDED["retention_ms"]), 0
    ends = [end for begin, behind, _ in checks for end in (begin, places[behind])]
    given = files_of_nights(FILES, {partition: [[end] for end in ends]})
    for _, _, removed in checks:
        audited.night(next(given), how)
        audited.night(next(given), how)
        seen = rows_of(in_duckdb(audited.tables()), "SELECT * FROM expiry_outcomes")
        assert {row["outcome"] for row in seen} <= {"removed", "still_there"}
        reported = [row for row in seen if row["outcome"] == "removed"]
        assert all(row["removed_after_ms"] >= 0 for row in reported)
        offsets_removed = {name for name in removed if len(name) == 3}
        assert {(row["group_id"], row["topic"], row["partition"]) for row in reported} == offsets_removed
        removed_by_all += len(offsets_removed)
    assert removed_by_all


def tombstone_batches(partition):
    """For each batch with tombstones: its start, the offset after it, and the names that it removes."""
    (path,) = segments_of(FILES)[partition]
    for records in read_segment(io.BytesIO(FILES[path])):
        assert isinstance(records, RecordColumns)
        for batch in range(len(records.batches)):
            rows = [row for row in range(len(records)) if records.batch[row] == batch and records.value(row) is None]
            if rows:
                header = records.batches
                begin = Border(0, int(header.position[batch]), int(header.base_offset[batch]))
                yield begin, int(header.last_offset[batch]) + 1, {removed_by(records.key(row) or b"") for row in rows}


def removed_by(key):
    """(group, topic, partition) of an offset tombstone's key, (group,) of any other's."""
    record_type, rest = int.from_bytes(key[:2], "big"), key[2:]
    names = []
    for _ in range(2 if record_type < 2 else 1):
        size = int.from_bytes(rest[:2], "big")
        names.append(rest[2 : 2 + size].decode())
        rest = rest[2 + size :]
    return (*names, int.from_bytes(rest, "big")) if record_type < 2 else (names[0],)
