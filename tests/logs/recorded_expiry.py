"""Recorded logs in which offsets expired, and the batches that removed them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from kgroups_spark.records.columns import CorruptBatch
from kgroups_spark.records.segment import read_segment
from tests.logs.corpora import CORPORA_44
from tests.logs.log_files import Border, Files, read_zip, segments_of
from tests.nights.reported_tables import Row
from tests.recorded_logs import CORPORA

FILES = {"4.3": read_zip(CORPORA)["expiry-4.3-after"], "4.4": read_zip(CORPORA_44)["expiry-4.4-after"]}


def tombstone_batches(files: Files, partition: int) -> Iterator[tuple[Border, int, int, set[tuple[Any, ...]]]]:
    """For each batch with tombstones: its start, its time in ms, the offset after it, and the names that it removes."""
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


def in_ms(row: Row) -> Row:
    row = {k: round(v.timestamp() * 1000) if isinstance(v, datetime) else v for k, v in row.items()}
    if row.get("topology") is not None:
        row["topology"] = json.loads(row["topology"])
    return row
