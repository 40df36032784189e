"""What a broker's expiry checks removed is what the tables, as of the moment before, say will go.

The corpora: 4.3.1 and 4.4.0, restarted with a short retention and a check every two seconds; nothing else wrote a
tombstone from then on. Each check of each offsets partition wrote its tombstones in one batch, whose time is the
check's.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from kgroups_spark.records.columns import CorruptBatch
from kgroups_spark.records.segment import read_segment
from tests.audit.pipeline import Audited, Border, Files, How, Row, audit_night, range_between, read_zip, segments_of
from tests.audit.test_corpora import ALL, CORPORA, CORPORA_44
from tests.expiry.twin import expires, judge_group, judge_offset

FILES = {
    "4.3": read_zip(CORPORA)["expiry-4.3-after"],
    "4.4": read_zip(CORPORA_44)["expiry-4.4-after"],
}
CASES = [(release, partition) for release, files in FILES.items() for partition in segments_of(files)]


@pytest.mark.parametrize(("release", "partition"), CASES)
def test_each_check_removes_the_offsets_and_groups_that_are_due(release: str, partition: int) -> None:
    files, retention_ms = FILES[release], ALL[f"expiry-{release}-after"]["retention_ms"]
    restarted_at = ALL[f"expiry-{release}-before"]["ends"][str(partition)]
    start, audited, checks = Border(0, 0, 0), Audited(), 0
    for begin, log_timestamp, next_offset, removed in tombstone_batches(files, partition):
        if begin.next_offset < restarted_at:
            continue
        until_check = range_between(files, partition, 0, start, begin)
        audited = audit_night(files, [until_check] if until_check.pieces else [], How(release), audited)
        judged = due(audited, log_timestamp, retention_ms, tuple(map(int, release.split("."))))
        assert judged == removed, f"check before log offset {next_offset}"
        start, checks = begin, checks + 1
    assert checks


def tombstone_batches(files: Files, partition: int) -> Iterator[tuple[Border, int, int, set[tuple[Any, ...]]]]:
    """Where a batch with tombstones begins, its time in ms, the offset behind it, and the names that it removes."""
    (path,) = segments_of(files)[partition]
    for records in read_segment(io.BytesIO(files[path])):
        assert not isinstance(records, CorruptBatch)
        for batch in range(len(records.batches)):
            rows = [row for row in range(len(records)) if records.batch[row] == batch and records.value(row) is None]
            if rows:
                header = records.batches
                begin = Border(0, int(header.position[batch]), int(header.base_offset[batch]))
                removed = {removed_by(records.key(row)) for row in rows}
                yield begin, int(records.timestamp[rows[0]]), int(header.last_offset[batch]) + 1, removed


def removed_by(key: bytes) -> tuple[Any, ...]:
    """(group, topic, partition) of an offset tombstone's key, (group,) of any other's."""
    record_type, rest = int.from_bytes(key[:2], "big"), key[2:]
    names = []
    for _ in range(2 if record_type < 2 else 1):
        size = int.from_bytes(rest[:2], "big")
        names.append(rest[2 : 2 + size].decode())
        rest = rest[2 + size :]
    return (*names, int.from_bytes(rest, "big")) if record_type < 2 else (names[0],)


def due(audited: Audited, as_of: int, retention_ms: int, version: tuple[int, ...]) -> set[tuple[Any, ...]]:
    """The offsets that expire at that moment, and the groups that are deleted with them."""
    groups, members, offsets, pending = (
        [in_ms(row) for row in audited.rows(name)]
        for name in ("groups", "group_members", "committed_offsets", "pending_offsets")
    )
    judged = {
        (row["group_id"], row["topic"], row["partition"]): judge_offset(
            row, groups, members, pending, as_of, retention_ms, version, True
        )
        for row in offsets
    }
    gone: set[tuple[Any, ...]] = {slot for slot, decision in judged.items() if expires(decision[0])}
    for group in groups:
        of_group = [decision for slot, decision in judged.items() if slot[0] == group["group_id"]]
        reason, _, _ = judge_group(group, of_group, pending, set(), as_of, version, True)
        if reason == "empty_and_nothing_left":
            gone.add((group["group_id"],))
    return gone


def in_ms(row: Row) -> Row:
    row = {k: round(v.timestamp() * 1000) if isinstance(v, datetime) else v for k, v in row.items()}
    if row.get("topology") is not None:
        row["topology"] = json.loads(row["topology"])
    return row
