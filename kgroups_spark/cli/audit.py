"""read the new records of the log into the tables

Reads __consumer_offsets, from a live cluster or from segment files, and brings the lake up to date: it appends history,
rewrites the current state and adds a row to the ledger. The first audit creates the lake. Later audits read only new
records; without new records only the ledger changes. A killed audit changes no answer.

examples:
  kgroups audit --lake ./lake --bootstrap-server broker1:9092
  kgroups audit --lake ./lake --bootstrap-server broker1:9093 --command-config client.properties
  kgroups audit --lake ./lake --segments /var/lib/kafka/data
  kgroups audit --lake s3://bucket/kgroups --segments broker1/ --segments broker2/ --release-version 3.9
  kgroups audit --lake ./lake --records s3://bucket/archive/__consumer_offsets
  kgroups audit --lake ./lake --segments copy/ --partition 17 --retention 14d --as-of 2026-11-16T06:41

An audit of a live cluster judges expiry as of now, with the brokers' retention and the rules of their release. An audit
of segments judges as of the newest log timestamp, with the newest release and its default retention (7d). The summary
prints all three.
A live audit reads up to the high watermark, and continues if the cleaner ran during the read. It uses at most two
fetchers a broker and the client.id kgroups-spark, for which brokers can set quotas. It needs DESCRIBE and READ on
Topic:__consumer_offsets; docs/live-clusters.md lists what other permissions add. Exit 3 with --strict if something was
quarantined, or some records could not be read; the notes name them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from kgroups_spark.audit.options import STATE_LOGS, AuditOptions, parse_state_logs
from kgroups_spark.cli.form import (
    LAKE,
    OFFSETS_PARTITIONS,
    TAKE_OVER,
    WRITER,
    Option,
    OptionParser,
    add_options,
    byte_count_value,
    delivery_count_value,
    lake_location,
    option_value,
    options_of,
    partition_values,
    positive_duration_value,
    release_value,
    time_value,
)
from kgroups_spark.cli.open_lake import OF_PYARROW, require_file_system, require_free, require_lake_path, start_engine
from kgroups_spark.cli.output import say_lines, work_reported
from kgroups_spark.errors import UsageError
from kgroups_spark.words import named_partitions

if TYPE_CHECKING:
    from kgroups_spark.audit.result import AuditSummary
    from kgroups_spark.cluster.client_properties import ClientProperties


# The time to reach a cluster before anything else starts, unless default.api.timeout.ms sets it.
FIRST_TRY_MS = 20_000


OPTIONS = (
    LAKE,
    Option(
        "--segments DIR ...",
        "a folder with __consumer_offsets-<p> folders in it: a broker's log directory or a copy; may be repeated",
        default=[],
    ),
    Option(
        "--records PATH",
        "an archive of the log's records instead: Parquet, JSON lines or a Delta table with partition, offset, "
        "timestamp, key and value (bytes or base64), as sinks and kafka-raw write them",
    ),
    Option("--bootstrap-server H:P", "a live cluster instead: comma-separated list of host:port"),
    Option(
        "--command-config FILE",
        "client.properties for the live cluster, as for Kafka's own tools: security.protocol, sasl.jaas.config ...",
    ),
    Option(
        "--max-bytes-per-second N",
        "total limit of fetched bytes a second, as in 500000, 500k or 20m (default: no limit)",
        byte_count_value,
    ),
    Option("--as-of T", "judge expiry at T (default: now; segments: newest log timestamp)", time_value),
    Option(
        "--retention D",
        "override offsets.retention.minutes, as in 7d (default: the brokers'; with --segments the release's)",
        positive_duration_value,
    ),
    Option(
        "--release-version V",
        "the Kafka release whose rules replay and expiry follow, as in 4.3, 3.9 or 3.9-java (default: the "
        "cluster's; segments: the newest)",
        release_value,
    ),
    Option(
        "--share-delivery-count-limit N",
        "group.share.delivery.count.limit, for groups without a limit of their own (default: the brokers'; with "
        "--segments that of the last audit that asked them, else unknown, and share_batches.attempts_left is null)",
        delivery_count_value,
    ),
    Option(
        "--partition N",
        "only these partitions of __consumer_offsets (17 or 3,17; may be repeated)",
        partition_values,
        more={"action": "extend", "dest": "partitions"},
    ),
    Option(
        "--include L",
        "which other logs to read, if they exist: share-state (__share_group_state), transaction-state "
        "(__transaction_state), both (share-state,transaction-state), or none (default: both)",
        option_value(parse_state_logs),
        STATE_LOGS,
    ),
    OFFSETS_PARTITIONS,
    Option("--full", "read everything again, not only new records"),
    Option(
        "--accept-log-change",
        "read a partition again if the log differs from the one read before (a topic that was created again, a log "
        "that was cut back and may be another one). This replaces the rows that earlier audits read from it. A log "
        "that proves to be the same needs no option",
    ),
    Option(
        "--delete-retention D",
        "delete.retention.ms of __consumer_offsets (default: the cluster's, else 24h, Kafka's own): if a partition "
        "was last read longer ago and offsets are missing since, it is read again from its start, because "
        "tombstones may be among the missing records",
        positive_duration_value,
    ),
    Option(
        "--strict",
        "exit 3 if something was quarantined, offsets were lost, a partition is missing, or one was not read to its "
        "end (no segment file, leader lost, last batch held back, cleaned faster than it could be read)",
    ),
    TAKE_OVER,
    WRITER,
)


def default_options() -> argparse.Namespace:
    """The options of `kgroups audit` if none is given."""
    parser = OptionParser()
    add_options(parser, OPTIONS)
    return parser.parse_args([])


def run(arguments: argparse.Namespace) -> int:
    """Runs the audit; prints its summary to stderr, as it has no rows. Returns the exit code."""
    check_sources(arguments)
    client = _client(arguments) if arguments.bootstrap_server else None
    summary = audit(arguments, lake_location(arguments), arguments.segments, client, arguments.pipeline)
    say_lines(summary.lines())
    return 3 if arguments.strict and summary.lacks_records else 0


def attribute(option: str) -> str:
    """`bootstrap_server` for --bootstrap-server."""
    return option[2:].replace("-", "_")


def check_sources(arguments: argparse.Namespace) -> None:
    """Raises UsageError for mistakes that are visible before Spark starts."""
    sources = [
        name for name in ("--segments", "--records", "--bootstrap-server") if getattr(arguments, attribute(name))
    ]
    if len(sources) > 1:
        raise UsageError(f"{sources[0]} and {sources[1]} are two sources: give one of them")
    if not arguments.bootstrap_server:
        for option in ("--command-config", "--max-bytes-per-second"):
            if getattr(arguments, attribute(option)) is not None:
                raise UsageError(f"{option} needs a live cluster: give --bootstrap-server, too")
    if not sources:
        raise UsageError(
            "nothing to read: --bootstrap-server HOST:PORT names a live cluster, --segments DIR a "
            "folder with __consumer_offsets-<p> folders in it, --records PATH an archive of records"
        )
    require_lake_path(lake_location(arguments))
    require_free(lake_location(arguments))
    require_file_system("--segments", arguments.segments, OF_PYARROW)
    if not arguments.segments or any("://" in folder for folder in arguments.segments):
        return  # only Hadoop in Spark can reach it
    from kgroups_spark.sources.segments import find_partitions

    found = {copy.partition for copy in find_partitions(arguments.segments)}
    missing = sorted(set(arguments.partitions or []) - found)
    if missing:
        raise UsageError(
            f"no folder __consumer_offsets-{missing[0]} in {', '.join(arguments.segments)}; found "
            f"{named_partitions(sorted(found))}"
        )


def _client(arguments: argparse.Namespace) -> ClientProperties:
    """The client properties for the cluster. Connects to it first, because Spark starts slowly."""
    from kgroups_spark.cluster.client_properties import client_properties, read_properties_file
    from kgroups_spark.cluster.cluster import Cluster
    from kgroups_spark.cluster.live_log import live_logs
    from kgroups_spark.sources.segments import OFFSETS_TOPIC

    properties = read_properties_file(arguments.command_config) if arguments.command_config else {}
    client = client_properties(arguments.bootstrap_server, properties)
    say_lines(client.notes)
    # At a terminal, a mistyped address is more likely than a cluster that is just starting.
    timeout_ms = None if "default.api.timeout.ms" in client.names else FIRST_TRY_MS
    say_lines([f"connecting to {client.bootstrap_servers}"])
    with Cluster(client, timeout_ms=timeout_ms) as cluster:
        live_logs(cluster, OFFSETS_TOPIC, arguments.partitions, max_bytes_per_second=arguments.max_bytes_per_second)
    return client


def audit(
    arguments: argparse.Namespace,
    lake: str,
    segments: list[str],
    client: ClientProperties | None = None,
    pipeline: Callable[..., AuditSummary] | None = None,
) -> AuditSummary:
    """Runs the audit, by a job's pipeline if Spark runs it, with a progress line; returns its result."""
    engine = start_engine(arguments.engine, "audit", lake)
    from kgroups_spark.audit.run import run_audit

    run = pipeline if pipeline and arguments.engine != "local" else run_audit
    with work_reported("the audit failed; nothing that it wrote counts") as progress:
        options = options_of(AuditOptions, arguments, lake=lake, segments=segments, client=client, progress=progress)
        return run(engine, options)
