"""Records of the data sources: their Spark schema, and Arrow batches of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, NullType, StringType, StructField, StructType

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.messages.coordinator_records import (
    COORDINATOR_LOGS,
    DECODED,
    GROUP_LOG,
    CoordinatorLog,
    CoordinatorRecordDecoder,
    RecordsDecoder,
    RecordType,
    Undecodable,
)
from kgroups_spark.messages.schema import Field
from kgroups_spark.records.columns import RecordColumns, binary_slices, control_type, control_type_name
from kgroups_spark.records.segment import read_segment
from kgroups_spark.sources.partition_log import (
    FETCHERS_PER_BROKER,
    LARGEST_OFFSET,
    FetchPiece,
    SegmentFile,
    SegmentPiece,
)
from kgroups_spark.sources.segment_log import SegmentReading, Span, choose_copies
from kgroups_spark.sources.segments import OFFSETS_TOPIC, PartitionCopy, find_partitions, require_listed
from kgroups_spark.tables.columns import (
    BIGINT,
    BINARY,
    BOOLEAN,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    array,
    column,
    required,
    without_comments,
)
from kgroups_spark.tables.spark_types import spark_schema
from kgroups_spark.words import by_weight, did_you_mean, suggested

if TYPE_CHECKING:  # kafka-raw alone needs kafka-python
    from kgroups_spark.cluster.client_properties import ClientProperties
    from kgroups_spark.cluster.cluster import Cluster
    from kgroups_spark.cluster.fetch import FetchLimits, Pace
    from kgroups_spark.cluster.live_log import LiveLog

ROWS_PER_BATCH = 1 << 16
BYTES_PER_BATCH = 32 << 20
LARGEST_TIMESTAMP_MS = (2**63 - 1) // 1000


ARROW_RECORDS = pa.schema(
    [
        required("topic", STRING, "topic of the log"),
        required("partition", INT, "partition of the log"),
        required("offset", BIGINT, "offset of the record"),
        column("timestamp", TIMESTAMP, "of the record, to the millisecond; null: none (message format 0)"),
        column("timestamp_type", INT, "0: create time, 1: log append time; null: none (message format 0)"),
        column("leader_epoch", INT, "leader epoch of the batch; null: none (message formats 0 and 1)"),
        column("producer_id", BIGINT, "null: not from a transactional or idempotent producer"),
        column("producer_epoch", SMALLINT, "null: not from a transactional or idempotent producer"),
        required("is_transactional", BOOLEAN, "part of a transaction, committed or not"),
        column("control_type", STRING, "COMMIT, ABORT, or the number of another; null: not a control record"),
        column("key", BINARY, "null: no key"),
        column("value", BINARY, "null: tombstone"),
    ]
)
RECORDS = spark_schema(ARROW_RECORDS)


def record_batches(topic: str, partition: int, records: RecordColumns) -> Iterator[pa.RecordBatch]:
    """The records in order, as batches of RECORDS; one exceeds the limits only if a single record does."""
    size = np.maximum(records.key_length, 0) + np.maximum(records.value_length, 0)
    ends = np.cumsum(size)
    start = 0
    while start < len(records):
        full = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + BYTES_PER_BATCH, side="right"))
        stop = min(max(full, start + 1), start + ROWS_PER_BATCH)
        yield _record_batch(topic, partition, records.take(slice(start, stop)))
        start = stop


def _record_batch(topic: str, partition: int, records: RecordColumns) -> pa.RecordBatch:
    count = len(records)
    columns = [
        pa.repeat(pa.scalar(topic), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        pa.array(records.offset),
        _timestamps(records.timestamp),
        _nullable(records.timestamp_type, pa.int32()),
        _nullable(records.leader_epoch, pa.int32()),
        _nullable(records.producer_id, pa.int64()),
        _nullable(records.producer_epoch, pa.int16()),
        pa.array(records.is_transactional),
        control_types(records),
        binary_slices(records.data, records.key_start, records.key_length),
        binary_slices(records.data, records.value_start, records.value_length),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_RECORDS)


def _timestamps(ms: NDArray[np.int64]) -> pa.Array:
    """Kafka's milliseconds as timestamps; null: none (-1), or beyond a microsecond timestamp (292,000 years)."""
    is_null = (ms == -1) | (ms > LARGEST_TIMESTAMP_MS) | (ms < -LARGEST_TIMESTAMP_MS)
    return pa.array(np.where(is_null, 0, ms) * 1000, pa.timestamp("us", "UTC"), mask=is_null)


def _nullable(numbers: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Kafka's -1 as null."""
    return pa.array(numbers, mask=numbers == -1).cast(kind)


def control_types(records: RecordColumns) -> pa.Array:
    """COMMIT, ABORT, or another type's number as text (-1: its key has none); null unless it is a control record."""
    rows = np.flatnonzero(records.is_control)
    types: list[str | None] = [None] * len(records)
    for row in rows.tolist():
        number = control_type(records.key(row))
        types[row] = control_type_name(-1 if number is None else number)
    return pa.array(types, pa.string())


EARLIEST, LATEST = -2, -1  # in JSON offsets
OFFSETS = ("startingOffsets", "endingOffsets")
MOST_DIGITS = 18
SHARED = ("subscribe", *OFFSETS, "minPartitions", "failOnDataLoss")


@dataclass(frozen=True)
class ReadOptions:
    """The parsed options of both sources. Offsets are by topic and partition; absent: an end of the log."""

    topics: tuple[str, ...]
    starting_offsets: Mapping[tuple[str, int], int]
    ending_offsets: Mapping[tuple[str, int], int]
    min_partitions: int
    fail_on_data_loss: bool

    def require_partitions(self, topic: str, there: Collection[int]) -> None:
        """Raises UsageError if offsets are given for a partition of the topic that does not exist."""
        for name, offsets in zip(OFFSETS, (self.starting_offsets, self.ending_offsets), strict=True):
            if missing := sorted(p for t, p in offsets if t == topic and p not in there):
                raise UsageError(f"{name} names partition {missing[0]} of {topic}, which has {len(there)}")


def shared_options(given: Mapping[str, str]) -> dict[str, Any]:
    """The fields of ReadOptions, from options whose names are in lower case. Raises UsageError for impossible values,
    for no topic, for offsets of a topic that is not read, and for a partition whose start is after its end."""
    subscribe = given.get("subscribe", OFFSETS_TOPIC)
    topics = tuple(dict.fromkeys(topic.strip() for topic in subscribe.split(",") if topic.strip()))
    starts = _offsets("startingOffsets", given.get("startingoffsets", "earliest"), "earliest", EARLIEST)
    ends = _offsets("endingOffsets", given.get("endingoffsets", "latest"), "latest", LATEST)
    if not topics:
        raise UsageError("subscribe names no topic")
    for (topic, partition), start in starts.items():
        if start > (end := ends.get((topic, partition), start)):
            raise UsageError(f"startingOffsets of {topic}-{partition} is {start}, after endingOffsets, which is {end}")
    if others := sorted({topic for topic, _ in (*starts, *ends)} - set(topics)):
        raise UsageError(
            f"offsets are given for {others[0]}, which subscribe does not name{did_you_mean(others[0], topics)}"
        )
    fails = given.get("failondataloss", "true")
    if fails.lower() not in ("true", "false"):
        raise UsageError(f"failOnDataLoss is true or false, not {fails!r}")
    return {
        "topics": topics,
        "starting_offsets": starts,
        "ending_offsets": ends,
        "min_partitions": number("minPartitions", given.get("minpartitions", "0")),
        "fail_on_data_loss": fails.lower() == "true",
    }


def require_known(source: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises UsageError for an unknown name; case does not matter."""
    names = {name.lower(): name for name in known}
    if unknown := sorted(name for name in given if name.lower() not in names):
        raise UsageError(f"{source} has no option {', '.join(unknown)}{suggested(unknown[0], list(names.values()))}")


def _offsets(name: str, text: str, word: str, number: int) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition, without those equal to `word` or `number`."""
    if text == word:
        return {}
    try:
        by_topic = json.loads(text)
        offsets = {(topic, int(p)): o for topic, by_partition in by_topic.items() for p, o in by_partition.items()}
        if not all(type(offset) is int for offset in offsets.values()):
            raise TypeError("an offset is no number, or has a fraction")
    except (ValueError, TypeError, AttributeError, RecursionError) as err:
        raise UsageError(f'{name} is "{word}" or JSON like {{"topic": {{"0": 23}}}}, not {short(text)}') from err
    if wrong := [o for o in offsets.values() if not 0 <= o <= LARGEST_OFFSET and o != number]:
        raise UsageError(f"{name} has the offset {wrong[0]}; 0 or more, or {number} for {word}, is meant")
    return {place: offset for place, offset in offsets.items() if offset != number}


def number(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise UsageError(f"{name} is a number, not {short(text)}")
    return int(text)


def short(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}...")


COLUMNS = spark_schema(pa.schema(DECODED))


def decode(frame: DataFrame, record: str | None = None, *, topic: str | None = None) -> DataFrame:
    """The decoded records of the frame's columns `key` and `value` (binary).

    With the name of a `record` type, its records alone, with typed columns: `key` and `value` are structs with the
    fields of Kafka's message files, in place of the bytes, and TYPED follow. `value` is null for a tombstone; if a
    record cannot be decoded, `reason` says why. "OffsetCommit" has both of Kafka's types of that name.

        decode(records, "OffsetCommit").where("value.offset > 0").select("key.group", "key.topic", "value.offset")

    Without it, all rows and the frame's columns, then COLUMNS, with keys and values as JSON, in which the protocols of
    groups are parsed. COLUMNS are null for control records if the frame has a column `control_type`, as
    `kafka-segments` and `kafka-raw` do. (Other sources hide control records.)

    `topic` is the topic of the records: `__consumer_offsets` (the default), `__share_group_state` or
    `__transaction_state`. Without the argument, a column `topic` has the topic of each row; a record of another topic,
    or of none, has the reason `other_topic`. Raises UsageError for another topic or record type, for anything but a
    DataFrame, or if the frame lacks one of the two columns or has it in another type.
    """
    if not isinstance(frame, DataFrame):
        raise UsageError(f"decode needs a DataFrame of Spark, not {type(frame).__name__}")
    # In lower case: Spark finds `Topic` as topic.
    names = [name.lower() for name in frame.columns]
    _require(frame, names, topic, COLUMNS if record is None else TYPED)
    log = GROUP_LOG if record is None else _log_of(record, topic)
    whose = F.lit(topic or log.topic)
    if topic is None and "topic" in names:
        whose = F.coalesce(F.col("topic").cast("string"), F.lit(""))
    if "control_type" in names:
        whose = F.when(F.col("control_type").isNull(), whose)
    # By numbers, because mapInArrow looks its columns up by name, and does not find one with a dot in it.
    numbered = frame.select("*", whose.cast("string")).toDF(*(f"column_{n}" for n in range(len(frame.columns) + 1)))
    key, value = names.index("key"), names.index("value")
    if record is None:
        schema = StructType([*frame.schema.fields, *COLUMNS.fields])
        return numbered.mapInArrow(partial(_with_decoded, schema.names, key, value), schema)
    typed = typed_columns(log, record)
    fields = [*frame.schema.fields, *TYPED.fields]
    for at, field in zip((key, value), spark_schema(typed), strict=True):
        fields[at] = StructField(frame.columns[at], field.dataType, True, field.metadata)
    schema = StructType(fields)
    return numbered.mapInArrow(
        partial(_with_typed, log, record, without_comments(typed), schema.names, key, value), schema
    )


def _with_decoded(
    names: list[str], key: int, value: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """`names`: of the columns of the answer; `key`, `value`: the numbers of these columns."""
    decoder = RecordsDecoder()
    for batch in batches:
        *columns, topics = batch.columns
        decoded = decoder.decode(topics.to_pylist(), columns[key], columns[value])
        yield pa.RecordBatch.from_arrays([*columns, *decoded.flatten()], names=names)


TYPED = StructType([field for field in COLUMNS if field.name in ("record_type", "value_version", "reason", "detail")])
_TYPES = {
    "int8": pa.int8(),
    "int16": SMALLINT,
    "uint16": INT,
    "int32": INT,
    "int64": BIGINT,
    "uuid": STRING,  # as Kafka prints it
    "string": STRING,
    "bytes": BINARY,
}


def _types_of(log: CoordinatorLog, record: str) -> dict[int, RecordType]:
    return {number: each for number, each in log.record_types.items() if each.name.removeprefix("Legacy") == record}


def _log_of(record: str, topic: str | None) -> CoordinatorLog:
    """The log that has records of that name. Raises UsageError."""
    if record in COORDINATOR_LOGS:
        raise UsageError(f"{record} is a topic and no record type: decode(frame, topic={record!r})")
    logs = [log for log in COORDINATOR_LOGS.values() if topic in (None, log.topic)]
    for log in logs:
        if _types_of(log, record):
            return log
    known = [each.name for log in logs for each in log.record_types.values()]
    raise UsageError(f"{topic or 'no log'} has {'no ' if topic else ''}records {record}{did_you_mean(record, known)}")


def typed_columns(log: CoordinatorLog, record: str) -> pa.Schema:
    """The columns `key` and `value`: the fields of all versions and layouts."""
    kinds = _types_of(log, record).values()
    values = [layout for kind in kinds for layout in kind.layouts]
    return pa.schema(
        [
            column("key", pa.struct(_typed([(kind.key.fields, "") for kind in kinds])), "null: it cannot be decoded"),
            column("value", pa.struct(_typed([(v.fields, v.layout) for v in values])), "null: tombstone, or `reason`"),
        ]
    )


def _typed(layouts: Sequence[tuple[Sequence[Field], str]]) -> list[pa.Field]:
    """The fields of all layouts, each with the versions or the early-access release that have it."""
    found = list[pa.Field]()
    for name in dict.fromkeys(field.name for fields, _ in layouts for field in fields):
        same = [(field, layout) for fields, layout in layouts for field in fields if field.name == name]
        (first, layout), nested = same[0], [(field.fields, layout) for field, layout in same]
        kind = pa.struct(_typed(nested)) if first.fields else _TYPES[first.element]
        since = f"as of version {first.versions.start}; before, {first.default!r}" if first.versions.start else ""
        early = f"layout of {layout} only; null in others" if layout else since
        found.append(column(name, array(kind) if first.is_array else kind, early or "all versions"))
    return found


def _with_typed(
    log: CoordinatorLog,
    record: str,
    typed: pa.Schema,
    names: list[str],
    key: int,
    value: int,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """`names`: of the columns of the answer; `key`, `value`: the numbers of these columns."""
    decoder, prefixes = CoordinatorRecordDecoder(log, is_raw=True), {n.to_bytes(2) for n in _types_of(log, record)}
    for batch in batches:
        pairs = zip(batch.columns[-1].to_pylist(), batch[key].to_pylist(), strict=True)
        is_one = [topic == log.topic and each is not None and each[:2] in prefixes for topic, each in pairs]
        *columns, _ = batch.filter(pa.array(is_one, pa.bool_())).columns
        rows = [*map(partial(_typed_row, decoder), columns[key].to_pylist(), columns[value].to_pylist())]
        more = zip(*rows, strict=True) if rows else [()] * 6
        kinds = [*typed.types, pa.int16(), pa.int16(), STRING, STRING]
        columns[key], columns[value], *last = map(pa.array, more, kinds)
        yield pa.RecordBatch.from_arrays([*columns, *last], names=names)


def _typed_row(decoder: CoordinatorRecordDecoder, key: bytes, value: bytes | None) -> tuple[Any, ...]:
    """Key, value and TYPED of a record."""
    known, found = decoder.key(key), decoder.decode(key, value)
    fields = None if isinstance(known, Undecodable) else known.fields
    if isinstance(found, Undecodable):
        return fields, None, found.record_type, found.value_version, found.reason, found.detail
    return fields, found.value, found.record_type, found.value_version, None, None


def _require(frame: DataFrame, names: list[str], topic: str | None, columns: StructType) -> None:
    if topic is not None and topic not in COORDINATOR_LOGS:
        raise UsageError(
            "the argument topic names the log, also for a copy with another name; "
            f"{topic} is no coordinator's log{did_you_mean(topic, COORDINATOR_LOGS)}"
        )
    if missing := [name for name in ("key", "value") if name not in names]:
        raise UsageError(f"decode needs the columns key and value; there is no {missing[0]}")
    for name in ("key", "value"):
        found = frame.schema[names.index(name)].dataType
        if isinstance(found, StringType):
            raise UsageError(
                f"decode needs binary columns key and value; {name} is string: unbase64({name}) makes bytes of base64"
            )
        if not isinstance(found, BinaryType | NullType):
            raise UsageError(f"decode needs binary columns key and value; {name} is {found.simpleString()}")
    if taken := [name for name in columns.names if name in names]:
        raise UsageError(f"the frame has a column {taken[0]} already: rename it, decode makes one of that name")


OPTIONS = ("kafka.bootstrap.servers", "commandConfig", *SHARED, "maxBytesPerSecond")


# Secrets that Spark shows if options are written in SQL (OPTIONS of a view or table: in the event log, in DESCRIBE). It
# hides options with password, secret or token in name or value (spark.redaction.regex). It shows a DataFrame's options
# nowhere.
SHOWN_BY_SPARK = ("ssl.keystore.key", "sasl.oauthbearer.assertion.private.key.passphrase")


class FetchSpan(NamedTuple):
    """A piece to fetch, and its wanted records start_offset .. end_offset - 1 (a batch at a border may have more)."""

    piece: FetchPiece
    start_offset: int
    end_offset: int


@dataclass(frozen=True)
class FetchedSpans(InputPartition):
    """The spans that one task fetches; at planning, one broker led all of them."""

    spans: tuple[FetchSpan, ...]


@dataclass(frozen=True, repr=False)
class Options(ReadOptions):
    client: ClientProperties
    max_bytes_per_second: int | None


class KafkaRawDataSource(DataSource):
    """Records of topics as brokers store them, up to the high watermark.

    The source returns every record, including control records and records of open and aborted transactions, of all
    message formats and codecs. Consumers, and Spark's own Kafka source, hide these and the producer ids.

    Options (names as in Spark's Kafka source; unknown ones are refused):

    =======================  ======================  ==================================================================
    kafka.bootstrap.servers  (required)              initial brokers: host:port,host:port
    commandConfig            none                    a client.properties on the driver, as Kafka's own tools take it
    kafka.*                  none                    the same properties one by one; for secrets, prefer the file
    subscribe                `__consumer_offsets`    topics, separated by commas
    startingOffsets          `earliest`              `earliest`, or JSON: {"topic": {"0": 23, "1": -2}}, -2 is earliest
    endingOffsets            `latest`                `latest`, or JSON: {"topic": {"0": 50, "1": -1}}, -1 is latest; the
                                                     offset itself is not read
    minPartitions            two for each broker     least number of Spark partitions, and so of fetchers
    failOnDataLoss           `true`                  `false`: skip records that are missing or cannot be read
    maxBytesPerSecond        no limit                limit for all tasks together
    =======================  ======================  ==================================================================

    Ends are fixed when the read is planned. A Spark partition is the spans that one task fetches from one broker.
    Columns: see RECORDS.

        spark.dataSource.register(KafkaRawDataSource)
        frame = spark.read.format("kafka-raw").option("kafka.bootstrap.servers", "broker1:9092").load()
        frame.where("control_type = 'ABORT'").show()
    """

    @classmethod
    def name(cls) -> str:
        return "kafka-raw"

    def schema(self) -> StructType:
        _require_no_shown_secret(self.options)
        return RECORDS

    def reader(self, schema: StructType) -> KafkaRawReader:
        if schema != RECORDS:
            raise UsageError("kafka-raw has a schema of its own: leave .schema(...) out and select what you need")
        return KafkaRawReader(parse_options(self.options))

    def streamReader(self, schema: StructType) -> Any:
        raise UsageError("kafka-raw reads what there is when it is asked: spark.read, not spark.readStream")


class KafkaRawReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options
        self._fetchers = 1

    def partitions(self) -> Sequence[FetchedSpans]:
        """The spans of each task. Raises KgroupsError for an unreachable cluster or a missing topic or offset."""
        from kgroups_spark.cluster.cluster import Cluster

        with Cluster(self._options.client) as cluster:
            partitions = plan_spans(self._options, cluster)
        self._fetchers = max(len(partitions), 1)
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of at most 65,536 rows and about 32 MiB. Raises KgroupsError, and the errors of FetchedLog."""
        from kgroups_spark.cluster.cluster import Cluster
        from kgroups_spark.cluster.fetch import FetchLimits

        assert isinstance(partition, FetchedSpans)
        options = self._options
        limits = FetchLimits(self._fetchers, options.max_bytes_per_second, options.client.timeout_ms)
        pace = limits.pace()
        with Cluster(options.client) as cluster:
            for span in partition.spans:
                yield from _records(cluster, span, limits, pace, options.fail_on_data_loss)


def _records(
    cluster: Cluster, span: FetchSpan, limits: FetchLimits, pace: Pace, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    from kgroups_spark.cluster.fetch import FetchedLog

    piece = span.piece
    log = FetchedLog(cluster, piece, limits, skip_lost=not fail_on_data_loss, pace=pace)
    for item in read_segment(log, from_offset=span.start_offset):
        if isinstance(item, RecordColumns):
            yield from record_batches(piece.topic, piece.partition, item.take(item.offset < span.end_offset))
        elif fail_on_data_loss:
            where = "" if item.base_offset is None else f" at offset {item.base_offset}"
            raise KgroupsError(
                f"{piece.topic}-{piece.partition}{where}: {item.size} bytes cannot be read: {item.detail}; "
                "failOnDataLoss=false passes over them"
            )


def plan_spans(options: Options, cluster: Cluster) -> list[FetchedSpans]:
    """The spans to read, in at most two tasks for each broker, or in more if minPartitions is higher."""
    wanted = [
        span for topic in options.topics for log in _logs(cluster, topic, options) if (span := _span(log, options))
    ]
    by_leader: dict[int | None, list[FetchSpan]] = {}
    for span in wanted:
        by_leader.setdefault(span.piece.leader, []).append(span)
    tasks = [
        of_task for spans in by_leader.values() for of_task in by_weight(spans, _span_offsets, FETCHERS_PER_BROKER)
    ]
    if len(tasks) >= options.min_partitions or not wanted:
        return [FetchedSpans(tuple(of_task)) for of_task in tasks]
    share = max(1, sum(map(_span_offsets, wanted)) // options.min_partitions)
    return [
        FetchedSpans((FetchSpan(piece, span.start_offset, span.end_offset),))
        for span in wanted
        for piece in span.piece.cut(-(-_span_offsets(span) // share))
    ]


def _logs(cluster: Cluster, topic: str, options: Options) -> Sequence[LiveLog]:
    from kgroups_spark.cluster.live_log import NoOffsetsTopic, live_logs

    try:
        found = live_logs(cluster, topic)
    except NoOffsetsTopic as err:
        known = sorted(cluster.topics())
        raise UsageError(f"the cluster has no topic {topic}{did_you_mean(topic, known)}") from err
    if found.notes and options.fail_on_data_loss:
        raise KgroupsError(f"{topic}: {'; '.join(found.notes)}; failOnDataLoss=false reads the others")
    options.require_partitions(topic, found.topic.partitions)
    return found.logs


def _span(log: LiveLog, options: Options) -> FetchSpan | None:
    """The wanted part of a partition; None: nothing is wanted. Raises KgroupsError."""
    place = (log.topic.name, log.partition)
    start, end = options.starting_offsets.get(place), options.ending_offsets.get(place)
    if options.fail_on_data_loss:
        there = f"{place[0]}-{place[1]} has offsets {log.log_start_offset} to {log.end_offset - 1}"
        advice = "failOnDataLoss=false reads what is there"
        if start is not None and not log.log_start_offset <= start <= log.end_offset:
            raise KgroupsError(f"{there}; startingOffsets asks for {start}; {advice}")
        if end is not None and end > log.end_offset:
            raise KgroupsError(f"{there}; endingOffsets asks for those before {end}; {advice}")
    first = max(log.log_start_offset, start or 0)
    stop = log.end_offset if end is None else min(end, log.end_offset)
    pieces = log.pieces(first, stop)
    return FetchSpan(pieces[0], first, stop) if pieces else None


def _span_offsets(span: FetchSpan) -> int:
    return span.end_offset - span.start_offset


def _require_no_shown_secret(options: Mapping[str, str]) -> None:
    for name in options:
        if name.lower().removeprefix("kafka.") in SHOWN_BY_SPARK:
            raise UsageError(f"{name} is a secret that Spark can show: give it in a file, by the option commandConfig")


def parse_options(options: Mapping[str, str]) -> Options:
    """The parsed options. Raises UsageError, and the errors of client_properties."""
    from kgroups_spark.cluster.client_properties import client_properties, read_properties_file

    _require_no_shown_secret(options)
    given = {name.lower(): value for name, value in options.items()}
    require_known("kafka-raw", [name for name in given if not name.startswith("kafka.")], OPTIONS)
    if "kafka.bootstrap.servers" not in given:
        raise UsageError('kafka-raw needs brokers: .option("kafka.bootstrap.servers", "host:port")')
    properties = read_properties_file(given["commandconfig"]) if "commandconfig" in given else {}
    # Kafka's property names are in lower case; Spark's options ignore case.
    properties |= {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    bootstrap_servers = properties.pop("bootstrap.servers")
    rate = number("maxBytesPerSecond", given.get("maxbytespersecond", "0"))
    return Options(
        **shared_options(given),
        client=client_properties(bootstrap_servers, properties),
        max_bytes_per_second=rate or None,
    )


@dataclass(frozen=True)
class SegmentRange(InputPartition):
    """Consecutive segments of one partition, and the end of the wanted records (`end_offset` None: all)."""

    span: Span
    end_offset: int | None


@dataclass(frozen=True)
class SegmentsOptions(ReadOptions):
    folders: tuple[str, ...]


class KafkaSegmentsDataSource(DataSource):
    """Records of Kafka log segments: folders of `<topic>-<partition>/<20 digits>.log`, such as a broker's log
    directory.

    The source returns every record, including control records and records of aborted transactions, of all message
    formats and codecs.

    Options (names as in Spark's Kafka source; unknown ones are refused):

    ==================  ==========================  ==================================================================
    path, paths         (required)                  a folder, or a JSON list of folders: local, or a URI of pyarrow.fs
    subscribe           `__consumer_offsets`        topics, separated by commas
    startingOffsets     `earliest`                  `earliest`, or JSON: {"topic": {"0": 23, "1": -2}}, -2 is earliest
    endingOffsets       `latest`                    `latest`, or JSON: {"topic": {"0": 50, "1": -1}}, -1 is latest;
                                                    the offset itself is not read
    minPartitions       number of log partitions    least number of Spark partitions, if there are enough segments
    failOnDataLoss      `true`                      `false`: skip batches that cannot be read
    ==================  ==========================  ==================================================================

    A Spark partition is a run of segments of one log partition. The best of several copies is read
    (`kgroups_spark.sources.segment_log.choose_copies`). Columns: see RECORDS.

        spark.dataSource.register(KafkaSegmentsDataSource)
        spark.read.format("kafka-segments").load("/var/kafka-logs").where("control_type = 'ABORT'").show()
    """

    @classmethod
    def name(cls) -> str:
        return "kafka-segments"

    def schema(self) -> StructType:
        return RECORDS

    def reader(self, schema: StructType) -> KafkaSegmentsReader:
        if schema != RECORDS:
            raise UsageError("kafka-segments has a schema of its own: leave .schema(...) out and select what you need")
        return KafkaSegmentsReader(parse_segments_options(self.options))

    def streamReader(self, schema: StructType) -> Any:
        raise UsageError("kafka-segments reads the files that there are: spark.read, not spark.readStream")


class KafkaSegmentsReader(DataSourceReader):
    def __init__(self, options: SegmentsOptions) -> None:
        self._options = options

    def partitions(self) -> list[SegmentRange]:
        """The segments of each task. Raises the errors of find_partitions."""
        return plan_ranges(self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of at most 65,536 rows and about 32 MiB. Raises KgroupsError."""
        assert isinstance(partition, SegmentRange)
        span, end_offset = partition.span, partition.end_offset
        reading = SegmentReading(span)
        for path, item in reading.items():
            if isinstance(item, RecordColumns):
                if end_offset is not None:
                    item = item.take(item.offset < end_offset)
                yield from record_batches(span.topic, span.partition, item)
            elif self._options.fail_on_data_loss and (
                end_offset is None or item.base_offset is None or item.base_offset < end_offset
            ):
                raise KgroupsError(
                    f"{path}, byte {item.position}: {item.size} bytes cannot be read: {item.detail}; "
                    "failOnDataLoss=false passes over them"
                )
        if reading.unconfirmed is not None and self._options.fail_on_data_loss:
            raise KgroupsError(f"{reading.unconfirmed}; failOnDataLoss=false passes over the batch")


def plan_ranges(options: SegmentsOptions) -> list[SegmentRange]:
    """Each chosen log partition as one range, or cut between segments if minPartitions is higher."""
    copies = [copy for topic in options.topics for copy in _copies(topic, options)]
    share = sum(copy.size for copy in copies) // max(options.min_partitions, 1)
    ranges: list[SegmentRange] = []
    for copy in copies:
        place = (copy.topic, copy.partition)
        start, end = options.starting_offsets.get(place, 0), options.ending_offsets.get(place)
        is_cut = options.min_partitions > len(copies)
        runs = _runs(copy, start, end, share if is_cut else copy.size)
        borders = [start, *(run[0].base_offset for run in runs[1:]), None]
        for run, (first, end_offset) in zip(runs, pairwise(borders), strict=False):
            pieces = [SegmentPiece(segment.path, 0, segment.size, segment) for segment in run]
            span = Span(copy.topic, copy.partition, pieces, first or 0, end_offset, run[-1].is_last)
            ranges.append(SegmentRange(span, end))
    return ranges


def _copies(topic: str, options: SegmentsOptions) -> list[PartitionCopy]:
    copies = choose_copies(find_partitions(options.folders, topic)).copies
    require_listed(copies)
    options.require_partitions(topic, [copy.partition for copy in copies])
    return copies


def _runs(copy: PartitionCopy, start: int, end: int | None, share: int) -> list[list[SegmentFile]]:
    """The segments with offsets start .. end - 1 (end None: all), in runs of at most about `share` bytes."""
    runs: list[list[SegmentFile]] = []
    filled = 0
    for segment in copy.segments_from(start):
        if end is not None and segment.base_offset >= end:
            break
        if not runs or (filled and filled + segment.size > share):
            runs.append([])
            filled = 0
        runs[-1].append(segment)
        filled += segment.size
    return runs


def parse_segments_options(options: Mapping[str, str]) -> SegmentsOptions:
    """The parsed options. Raises UsageError for unknown names and impossible values."""
    given = {name.lower(): value for name, value in options.items()}
    require_known("kafka-segments", options, ("path", "paths", *SHARED))
    return SegmentsOptions(**shared_options(given), folders=_folders(given.get("path"), given.get("paths")))


def _folders(path: str | None, paths: str | None) -> tuple[str, ...]:
    listed: Any = None
    with suppress(ValueError, RecursionError):
        listed = json.loads(paths or "[]")
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise UsageError(f"paths is a JSON list of folders, not {short(paths or '')}")
    if not (folders := [*([path] if path else []), *listed]):
        raise UsageError("kafka-segments needs a folder: .load(folder)")
    return tuple(folders)
