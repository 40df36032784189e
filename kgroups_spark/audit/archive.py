"""Records that somebody archived as rows (a sink to object storage, kafka-raw), as segment files of a broker.

Each row becomes a batch of its own, so that a longer archive tomorrow begins with the same bytes. The last record of a
partition is in a segment of its own, whose name confirms its offset.

    partition  offset  timestamp      key    value
    17         500     1763275281000  ...    ...     __consumer_offsets-17/00000000000000000500.log: 500, 502
    17         502     1763275282000  ...    null    __consumer_offsets-17/00000000000000000503.log: 503
    17         503     1763275283000  ...    ...

Notes name what an archive lacks: sinks drop tombstones and never see markers.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from crc32c import crc32c
from pyarrow import fs

from kgroups_spark.errors import KgroupsError, UsageError, how_to_install
from kgroups_spark.messages.coordinator_records import COORDINATOR_LOGS
from kgroups_spark.records.columns import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from kgroups_spark.sources.files import file_system
from kgroups_spark.sources.segments import OFFSETS_TOPIC
from kgroups_spark.words import counted, did_you_mean

NEEDED = ("partition", "offset", "timestamp", "key", "value")
# Columns of kafka-raw, with what counts for a row without them.
MORE: Mapping[str, Any] = {
    "topic": OFFSETS_TOPIC,
    "timestamp_type": 0,
    "leader_epoch": -1,
    "producer_id": -1,
    "producer_epoch": -1,
    "is_transactional": False,
    "control_type": None,
}
MARKERS = {"ABORT": 0, "COMMIT": 1}


def write_segments(archive: str, folder: Path) -> list[str]:
    """Writes the archive's records as folders of segments; returns notes on what it lacks. Raises KgroupsError."""
    rows, names = _rows(archive)
    if not rows.num_rows:
        raise KgroupsError(f"{archive} has no records of {', '.join(COORDINATOR_LOGS)}")
    notes = list[str]()
    for topic in sorted(pc.unique(rows["topic"]).to_pylist()):
        records = rows.filter(pc.equal(rows["topic"], topic)).sort_by(
            [("partition", "ascending"), ("offset", "ascending")]
        )
        gaps = sum(
            _write(folder / f"{topic}-{number}", records.filter(pc.equal(records["partition"], number)), topic)
            for number in sorted(pc.unique(records["partition"]).to_pylist())
        )
        notes += _lacking(archive, topic, records, gaps, names)
    return notes


def _lacking(archive: str, topic: str, records: pa.Table, gaps: int, names: Iterable[str]) -> Iterator[str]:
    found = f"{archive}: {counted(records.num_rows, 'record')} of {topic}"
    if topic == OFFSETS_TOPIC and records["value"].null_count == 0:
        yield (
            f"{found} and no tombstone: most archives drop them; groups, offsets and members that were deleted or "
            "expired then look alive"
        )
    if gaps:
        missing = f"{counted(gaps, 'offset')} between them missing"
        yield f"{found}, {missing}: compacted, markers of transactions, or never archived"
    if "control_type" not in names or "is_transactional" not in names:
        yield (
            f"{found} without is_transactional and control_type: offsets that were committed in transactions count at "
            "once, also those of transactions that were aborted"
        )


def _rows(archive: str) -> tuple[pa.Table, set[str]]:
    """The rows of coordinators' logs with the columns of NEEDED and MORE; the names of the columns that there are."""
    try:
        found = _read(archive)
    except (OSError, ValueError) as error:
        raise KgroupsError(f"{archive} cannot be read as Parquet, JSON lines or a Delta table: {error}") from error
    given = {name.lower(): name for name in found.column_names}
    if missing := [name for name in NEEDED if name not in given]:
        near = did_you_mean(missing[0], given)
        raise UsageError(
            f"{archive} has no column {missing[0]}{near}: records need {', '.join(NEEDED)}; without their offsets they "
            "cannot be replayed, because their order decides"
        )
    columns = {name: found[given[name]] if name in given else pa.nulls(found.num_rows) for name in (*NEEDED, *MORE)}
    for name in ("key", "value"):
        columns[name] = _bytes(archive, name, columns[name])
    columns["timestamp"] = _ms(columns["timestamp"])
    for name, default in MORE.items():
        if default is not None:
            kind = pa.scalar(default).type
            columns[name] = pc.fill_null(columns[name].cast(kind), pa.scalar(default, kind))
    rows = pa.table(columns)
    return rows.filter(pc.is_in(rows["topic"], pa.array([*COORDINATOR_LOGS]))), set(given)


def _read(archive: str) -> pa.Table:
    system, path = file_system(archive)
    if system.get_file_info(f"{path}/_delta_log").type == fs.FileType.Directory:
        if not isinstance(system, fs.LocalFileSystem):
            raise UsageError(f"{archive} is a Delta table elsewhere: copy it to a folder of this machine")
        try:
            from deltalake import DeltaTable
        except ImportError as error:
            raise KgroupsError(f"{archive} is a Delta table: {how_to_install('read')} reads it") from error
        return DeltaTable(path).to_pyarrow_table()
    selector = fs.FileSelector(path, recursive=True)
    is_folder = system.get_file_info(path).type == fs.FileType.Directory
    files = [file.path for file in system.get_file_info(selector)] if is_folder else [path]
    form = "json" if any(file.endswith((".json", ".jsonl", ".ndjson")) for file in files) else "parquet"
    return ds.dataset(path, format=form, filesystem=system, exclude_invalid_files=is_folder).to_table()


def _bytes(archive: str, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return column.cast(pa.binary())
    try:
        decoded = [None if text is None else base64.b64decode(text, validate=True) for text in column.to_pylist()]
    except (binascii.Error, ValueError) as error:
        raise UsageError(
            f"{archive}: {name} is text and not base64: an archive needs a record's bytes (Kafka Connect: "
            "ByteArrayConverter), as binary or as base64"
        ) from error
    return pa.chunked_array([pa.array(decoded, pa.binary())])


def _ms(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Epoch ms; -1: none."""
    if pa.types.is_string(column.type):
        column = column.cast(pa.timestamp("us", "UTC"))
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    return pc.fill_null(column.cast(pa.int64()), -1)


def _write(folder: Path, records: pa.Table, topic: str) -> int:
    """Writes a partition's segments; returns the number of offsets that are missing between its records."""
    folder.mkdir(parents=True)
    offsets = records["offset"].to_pylist()
    found = dict[int, bytes]()
    for row in records.to_pylist():
        batch = _batch(row)
        if found.setdefault(row["offset"], batch) != batch:
            raise KgroupsError(
                f"the archive has two records at offset {row['offset']} of {topic} partition {row['partition']}: it is "
                "of two logs (the topic was created again); give the files of one"
            )
    *others, last = found
    for first, batches in ((others[:1] or [last], others), ([last], [last])):
        (folder / f"{first[0]:020d}.log").write_bytes(b"".join(found[offset] for offset in batches))
    return int(offsets[-1] - offsets[0] + 1 - len(found))


def _batch(row: Mapping[str, Any]) -> bytes:
    """A batch of magic 2 with one record (DefaultRecordBatch of Kafka)."""
    attributes = LOG_APPEND_TIME * (row["timestamp_type"] == 1) | TRANSACTIONAL * row["is_transactional"]
    key, value = row["key"], row["value"]
    if row["control_type"] is not None:
        attributes |= CONTROL
        if key is None and row["control_type"] in MARKERS:
            key, value = struct.pack(">hh", 0, MARKERS[row["control_type"]]), struct.pack(">hi", 0, 0)
    body = b"\0\0\0" + _sized(key) + _sized(value) + b"\0"
    time, producer = row["timestamp"], (row["producer_id"], row["producer_epoch"])
    covered = struct.pack(">hiqqqhii", attributes, 0, time, time, *producer, -1, 1) + _varint(len(body)) + body
    return struct.pack(">qiibI", row["offset"], 9 + len(covered), row["leader_epoch"], 2, crc32c(covered)) + covered


def _sized(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _varint(number: int) -> bytes:
    """Zigzag, as in protocol buffers."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out, left])
