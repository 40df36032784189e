"""The source of an audit: folders of segments, a live cluster, or an archive, which becomes segments.

An archive has records as rows (a sink to object storage, kafka-raw).

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from crc32c import crc32c
from pyarrow import fs

from kgroups_spark.audit.options import STATE_LOGS, AuditOptions, require_partition_count
from kgroups_spark.audit.plan import DEFAULT_DELETE_RETENTION_MS
from kgroups_spark.coordinator.releases import NEWEST, expiry_rules
from kgroups_spark.errors import KgroupsError, UsageError, how_to_install
from kgroups_spark.messages.coordinator_records import COORDINATOR_LOGS, SHARE_LOG, TRANSACTION_LOG
from kgroups_spark.records.columns import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from kgroups_spark.replay.counts import CLUSTER, Sighting
from kgroups_spark.replay.state_logs import DELIVERY_COUNT_LIMIT, ClusterFact
from kgroups_spark.replay.state_logs import Settings as StateSettings
from kgroups_spark.sources.files import file_system
from kgroups_spark.sources.partition_log import PartitionLog
from kgroups_spark.sources.segment_log import SegmentLog, choose_copies
from kgroups_spark.sources.segments import (
    HIGH_WATERMARKS,
    OFFSETS_TOPIC,
    PartitionCopy,
    find_any_partitions,
    find_partitions,
)
from kgroups_spark.words import counted, did_you_mean, number_ranges, to_epoch_ms

if TYPE_CHECKING:
    from kgroups_spark.audit.cluster_facts import ClusterFacts
    from kgroups_spark.cluster.client_properties import ClientProperties
    from kgroups_spark.cluster.cluster import Cluster


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
    columns |= {name: _bytes(archive, name, columns[name]) for name in ("key", "value")}
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


RetentionSource = Literal["option", "broker", "default"]


class AuditSettings(NamedTuple):
    """The settled settings. `as_of`: epoch ms; None: from the log's times and the clock (replay/ranges.py).
    `clock_ms`: this machine's clock at the start of the audit, epoch ms. `offsets_partitions` None: the only number
    that fits every group's hash. `states`: settings of the other coordinators, from the last known facts of the
    cluster."""

    release_version: str
    retention_ms: int
    retention_source: RetentionSource
    delete_retention_ms: int
    clock_ms: int
    as_of: int | None = None
    offsets_partitions: int | None = None
    states: StateSettings = StateSettings()


def settle(options: AuditOptions, clock_ms: int, facts: ClusterFacts | None = None) -> AuditSettings:
    """The settings of an audit of segments, or of a cluster (`facts`). `clock_ms`: before it was asked for log ends."""
    release_version = options.release_version or (facts and facts.release_version) or NEWEST
    known_ms = facts.offsets_retention_ms if facts else None
    retention_ms, source = retention(options.retention_ms, known_ms, "broker", release_version)
    of_topic = facts.delete_retention_ms if facts else None
    return AuditSettings(
        release_version,
        retention_ms,
        source,
        next(ms for ms in (options.delete_retention_ms, of_topic, DEFAULT_DELETE_RETENTION_MS) if ms is not None),
        clock_ms,
        options.as_of,
        options.offsets_partitions,
    )


def retention(
    given_ms: int | None, known_ms: int | None, source: RetentionSource, release_version: str
) -> tuple[int, RetentionSource]:
    """The retention (ms) of the option, else the known one, which is from `source`, else the release's default."""
    if given_ms is not None:
        return given_ms, "option"
    return (expiry_rules(release_version).default_retention_ms, "default") if known_ms is None else (known_ms, source)


class LogSource(NamedTuple):
    """The log to read, and its facts. `name`: its name in the ledger.

    For a live cluster also: how tasks reach it, and the open connection. `state_logs`: the other logs asked for, by
    topic; one that does not exist has no partitions, one that cannot be read is not there. `states_without_answer`:
    their partitions, as __transaction_state-3. `facts`: rows of `cluster_facts`, for segments those of options.
    """

    name: str
    logs: Sequence[PartitionLog]
    settings: AuditSettings
    notes: Sequence[str] = ()
    client: ClientProperties | None = None
    cluster: Cluster | None = None
    offsets_partitions: int | None = None
    topics: tuple[Sighting, ...] = ()
    state_logs: Mapping[str, Sequence[PartitionLog]] = {}
    states_without_answer: tuple[str, ...] = ()
    facts: tuple[ClusterFact, ...] = ()


@contextmanager
def open_source(options: AuditOptions) -> Iterator[LogSource]:
    """The log that the options name; a connection is closed afterwards. Raises KgroupsError."""
    if options.records is not None:
        with TemporaryDirectory(prefix="kgroups-records-") as folder:
            options.progress(f"reading {options.records}")
            notes = write_segments(options.records, Path(folder))
            source = _segments(replace(options, segments=[folder]))
            yield source._replace(notes=[*source.notes, *notes])
        return
    if options.client is None:
        source = _segments(options)
        require_partition_count(options.offsets_partitions, (log.partition for log in source.logs))
        yield source
        return
    # Imported here, because kafka-python takes a quarter of a second.
    from kgroups_spark.cluster.cluster import Cluster

    with Cluster(options.client) as cluster:
        source = _live(options, options.client, cluster)
        require_partition_count(options.offsets_partitions, range(source.offsets_partitions or 0))
        yield source


def _segments(options: AuditOptions) -> LogSource:
    """One copy of each partition to read."""
    choice = choose_copies(find_partitions(options.segments))
    copies = choice.copies
    if options.partitions is not None:
        wanted = set(options.partitions)
        if missing := sorted(wanted - {copy.partition for copy in copies}):
            raise UsageError(f"no partition {missing[0]} in {', '.join(options.segments)}")
        copies = [copy for copy in copies if copy.partition in wanted]
    notes = [*choice.notes, *_of_unknown_commitment(copies)]
    states = {topic: choose_copies(find_any_partitions(options.segments, topic)) for topic in state_topics(options)}
    notes += [note for chosen in states.values() for note in chosen.notes]
    return LogSource(
        "segments",
        [SegmentLog(copy) for copy in copies],
        settle(options, _clock_ms()),
        notes,
        state_logs={topic: [SegmentLog(c) for c in chosen.copies] for topic, chosen in states.items()},
        facts=_of_options(options),
    )


def _of_options(options: AuditOptions) -> tuple[ClusterFact, ...]:
    limit = options.share_delivery_count_limit
    return () if limit is None else (ClusterFact("broker_config", DELIVERY_COUNT_LIMIT, str(limit), "option"),)


def state_topics(options: AuditOptions) -> list[str]:
    names = {"share-state": SHARE_LOG.topic, "transaction-state": TRANSACTION_LOG.topic}
    return [names[each] for each in STATE_LOGS if each in options.include]


def _of_unknown_commitment(copies: Sequence[PartitionCopy]) -> list[str]:
    """A note on partitions that are missing from their log directory's checkpoint of high watermarks."""
    unknown = [copy.partition for copy in copies if copy.has_checkpoint and copy.committed_to is None]
    if not unknown:
        return []
    return [
        f"{HIGH_WATERMARKS} does not name {counted(len(unknown), 'partition')} ({number_ranges(unknown)}): read to the "
        "end, although the last records may not be committed"
    ]


def _live(options: AuditOptions, client: ClientProperties, cluster: Cluster) -> LogSource:
    from kgroups_spark.audit.cluster_facts import cluster_facts
    from kgroups_spark.cluster.live_log import live_logs

    clock_ms = _clock_ms()
    options.progress("asking the cluster")
    found = live_logs(cluster, OFFSETS_TOPIC, options.partitions, max_bytes_per_second=options.max_bytes_per_second)
    facts = cluster_facts(cluster, OFFSETS_TOPIC)
    states, without_answer, not_read = _live_states(options, cluster)
    evidence = [facts.release_evidence] if options.release_version is None else []
    return LogSource(
        "kafka",
        found.logs,
        settle(options, clock_ms, facts),
        [*found.notes, *evidence, *facts.notes, *not_read],
        client,
        cluster,
        len(found.topic.partitions),
        tuple((topic_id, topic, None, CLUSTER) for topic_id, topic in facts.topic_ids),
        states,
        tuple(without_answer),
        (*facts.rows, *_of_options(options)),
    )


def _live_states(
    options: AuditOptions, cluster: Cluster
) -> tuple[dict[str, Sequence[PartitionLog]], list[str], list[str]]:
    """Other logs that the cluster has, their partitions without an answer, and notes on logs that cannot be read."""
    from kgroups_spark.cluster.live_log import NoOffsetsTopic, live_logs

    logs: dict[str, Sequence[PartitionLog]] = {}
    without_answer, notes = list[str](), list[str]()
    for topic in state_topics(options):
        try:
            found = live_logs(cluster, topic, max_bytes_per_second=options.max_bytes_per_second)
        except NoOffsetsTopic:
            logs[topic] = []
            continue
        except KgroupsError as error:
            notes.append(f"{topic} is not read: {error}")
            continue
        logs[topic] = found.logs
        without_answer += [f"{topic}-{number}" for number in found.without_answer]
        notes += [f"{topic}: {note}" for note in found.notes]
    return logs, without_answer, notes


def _clock_ms() -> int:
    return to_epoch_ms(datetime.now(UTC))
