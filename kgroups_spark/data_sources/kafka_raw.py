"""The PySpark data source `kafka-raw`: records of a live cluster's topics, with the columns that consumers hide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kgroups_spark.balance import by_weight
from kgroups_spark.client.properties import ClientProperties, client_properties, read_properties_file
from kgroups_spark.cluster.cluster import Cluster
from kgroups_spark.cluster.fetch import FetchedLog, FetchLimits, Pace
from kgroups_spark.cluster.live_log import LiveLog, NoOffsetsTopic, live_logs
from kgroups_spark.data_sources.read_options import (
    SHARED,
    BadOption,
    ReadOptions,
    number,
    require_known,
    shared_options,
)
from kgroups_spark.data_sources.record_frame import RECORDS, record_batches
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.nearest import did_you_mean
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import read_segment
from kgroups_spark.sources.partition_log import FETCHERS_PER_BROKER, FetchPiece

OPTIONS = ("kafka.bootstrap.servers", "commandConfig", *SHARED, "maxBytesPerSecond")
# Options of Spark's Kafka source that this source does not have, and what to use instead.
NOT_HERE = {
    "assign": "subscribe names topics, startingOffsets and endingOffsets what of their partitions",
    "subscribepattern": "subscribe names topics",
    "startingtimestamp": "offsets are wanted: startingOffsets",
    "startingoffsetsbytimestamp": "offsets are wanted: startingOffsets",
    "endingtimestamp": "offsets are wanted: endingOffsets",
    "endingoffsetsbytimestamp": "offsets are wanted: endingOffsets",
    "includeheaders": "records of the topics that this is for have none",
    "maxoffsetspertrigger": "streams are not read",
    "groupidprefix": "no consumer group is used",
}


# Secrets that Spark shows if options are written in SQL (OPTIONS of a view or table: in the event log, in DESCRIBE). It
# hides options with password, secret or token in name or value (spark.redaction.regex). It shows a DataFrame's options
# nowhere.
SHOWN_BY_SPARK = ("ssl.keystore.key", "sasl.oauthbearer.assertion.private.key.passphrase")


class DataLoss(KgroupsError):
    """Wanted records are missing or cannot be read, and failOnDataLoss is on."""


@dataclass(frozen=True)
class FetchSpan:
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
    Columns: see RECORDS in record_frame.py.

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
            raise BadOption("kafka-raw has a schema of its own: leave .schema(...) out and select what you need")
        return KafkaRawReader(parse_options(self.options))

    def streamReader(self, schema: StructType) -> Any:
        raise BadOption("kafka-raw reads what there is when it is asked: spark.read, not spark.readStream")


class KafkaRawReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options
        self._fetchers = 1

    def partitions(self) -> Sequence[FetchedSpans]:
        """The spans of each task. Raises KgroupsError for an unreachable cluster or a missing topic or offset."""
        with Cluster(self._options.client) as cluster:
            partitions = plan_spans(self._options, cluster)
        self._fetchers = max(len(partitions), 1)
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of at most 65,536 rows and about 32 MiB. Raises DataLoss, and the errors of FetchedLog."""
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
    piece = span.piece
    log = FetchedLog(cluster, piece, limits, skip_lost=not fail_on_data_loss, pace=pace)
    for item in read_segment(log, from_offset=span.start_offset):
        if isinstance(item, RecordColumns):
            yield from record_batches(piece.topic, piece.partition, item.take(item.offset < span.end_offset))
        elif fail_on_data_loss:
            where = "" if item.base_offset is None else f" at offset {item.base_offset}"
            raise DataLoss(
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
    tasks = [of_task for spans in by_leader.values() for of_task in by_weight(spans, _offsets, FETCHERS_PER_BROKER)]
    if len(tasks) >= options.min_partitions or not wanted:
        return [FetchedSpans(tuple(of_task)) for of_task in tasks]
    share = max(1, sum(map(_offsets, wanted)) // options.min_partitions)
    return [
        FetchedSpans((FetchSpan(piece, span.start_offset, span.end_offset),))
        for span in wanted
        for piece in span.piece.cut(-(-_offsets(span) // share))
    ]


def _logs(cluster: Cluster, topic: str, options: Options) -> Sequence[LiveLog]:
    try:
        found = live_logs(cluster, topic)
    except NoOffsetsTopic as err:
        known = sorted(cluster.topics())
        raise UsageError(f"the cluster has no topic {topic}{did_you_mean(topic, known)}") from err
    if found.notes and options.fail_on_data_loss:
        raise DataLoss(f"{topic}: {'; '.join(found.notes)}; failOnDataLoss=false reads the others")
    options.require_partitions(topic, found.topic.partitions)
    return found.logs


def _span(log: LiveLog, options: Options) -> FetchSpan | None:
    """The wanted part of a partition; None: nothing is wanted. Raises DataLoss."""
    place = (log.topic.name, log.partition)
    start, end = options.starting_offsets.get(place), options.ending_offsets.get(place)
    if options.fail_on_data_loss:
        there = f"{place[0]}-{place[1]} has offsets {log.log_start_offset} to {log.end_offset - 1}"
        advice = "failOnDataLoss=false reads what is there"
        if start is not None and not log.log_start_offset <= start <= log.end_offset:
            raise DataLoss(f"{there}; startingOffsets asks for {start}; {advice}")
        if end is not None and end > log.end_offset:
            raise DataLoss(f"{there}; endingOffsets asks for those before {end}; {advice}")
    first = max(log.log_start_offset, start or 0)
    stop = log.end_offset if end is None else min(end, log.end_offset)
    pieces = log.pieces(first, stop)
    return FetchSpan(pieces[0], first, stop) if pieces else None


def _offsets(span: FetchSpan) -> int:
    return span.end_offset - span.start_offset


def _require_no_shown_secret(options: Mapping[str, str]) -> None:
    for name in options:
        if name.lower().removeprefix("kafka.") in SHOWN_BY_SPARK:
            raise BadOption(f"{name} is a secret that Spark can show: give it in a file, by the option commandConfig")


def parse_options(options: Mapping[str, str]) -> Options:
    """The parsed options. Raises BadOption for unknown names and impossible values, and the errors of
    client_properties."""
    _require_no_shown_secret(options)
    given = {name.lower(): value for name, value in options.items()}
    for name in sorted(given.keys() & NOT_HERE.keys()):
        raise BadOption(f"kafka-raw has no option {name}: {NOT_HERE[name]}")
    require_known("kafka-raw", [name for name in given if not name.startswith("kafka.")], OPTIONS)
    if "kafka.bootstrap.servers" not in given:
        raise BadOption('kafka-raw needs brokers: .option("kafka.bootstrap.servers", "host:port")')
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
