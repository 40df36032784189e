"""`kgroups audit`: reads what is new in the log and brings the tables up to it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kgroups_spark.commands.options import (
    add_lake_option,
    add_offsets_partitions_option,
    add_take_over_option,
    add_writer_option,
    lake_location,
    partition_values,
    positive_duration_value,
    release_value,
    time_value,
)
from kgroups_spark.commands.output import say_lines
from kgroups_spark.commands.progress import Progress, work_told
from kgroups_spark.commands.reading import require_lake_path
from kgroups_spark.commands.spark import start_spark
from kgroups_spark.errors import UsageError
from kgroups_spark.number_ranges import number_ranges

if TYPE_CHECKING:
    from kgroups_spark.audit.options import AuditOptions
    from kgroups_spark.audit.summary import AuditSummary

NAME = "audit"
SUMMARY = "read what is new in the log and bring the tables up to it"
DESCRIPTION = """\
Reads segments of __consumer_offsets and brings the lake up to them: history is added, the tables of now are rewritten,
the ledger gets a row. The first audit of a lake makes it; the next one reads only what is new; one that finds nothing
new changes nothing but the ledger. A killed audit leaves no trace that counts."""
EXAMPLES = """\
examples:
  kgroups audit --lake ./lake --segments /var/lib/kafka/data
  kgroups audit --lake s3://bucket/kgroups --segments broker1/ --segments broker2/ --release-version 3.9
  kgroups audit --lake ./lake --segments copy/ --partition 17 --retention 14d --as-of 2026-11-16T06:41

By default expiry is judged as of the newest log timestamp, with the release's default retention (7d); both are printed.
Exit 3 with --strict if something was quarantined or offsets were lost before they were read."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `kgroups audit`."""
    add_lake_option(parser)
    parser.add_argument(
        "--segments",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder with __consumer_offsets-<p> folders in it: a broker's log directory or a copy; may be repeated",
    )
    # Live clusters are refused below, not listed: the option is part of the contract, reading them is to come.
    parser.add_argument("--bootstrap-server", help=argparse.SUPPRESS)
    parser.add_argument("--command-config", help=argparse.SUPPRESS)
    parser.add_argument(
        "--as-of", type=time_value, metavar="T", help="judge expiry at T (default: newest log timestamp)"
    )
    parser.add_argument(
        "--retention",
        type=positive_duration_value,
        metavar="D",
        help="offsets.retention.minutes (default: the release's)",
    )
    parser.add_argument(
        "--release-version",
        type=release_value,
        metavar="V",
        help="the Kafka release whose rules replay and expiry follow, as in 4.3, 3.9 or 3.9-java (default: the newest)",
    )
    parser.add_argument(
        "--partition",
        type=partition_values,
        action="extend",
        metavar="N",
        help="only these partitions of __consumer_offsets (17 or 3,17; may be repeated)",
    )
    add_offsets_partitions_option(parser)
    parser.add_argument("--full", action="store_true", help="read everything again, not only what is new")
    parser.add_argument(
        "--delete-retention",
        type=positive_duration_value,
        metavar="D",
        help="delete.retention.ms of __consumer_offsets (default: 24h, Kafka's own): a partition that was read longer "
        "ago is read again from its start if offsets are missing, because tombstones may be among them",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit 3 if something was quarantined or offsets were lost"
    )
    add_writer_option(
        parser,
        "who writes history: parts (pyarrow, one commit a table) where the lake allows it, spark anywhere",
    )
    add_take_over_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Audits; the summary goes to stderr, as there are no rows."""
    check_sources(arguments)
    summary = audit(arguments, lake_location(arguments), arguments.segments)
    say_lines(summary.lines())
    return 3 if arguments.strict and summary.has_findings else 0


def check_sources(arguments: argparse.Namespace) -> None:
    """Raises UsageError for what can be told before Spark is started."""
    if arguments.bootstrap_server or arguments.command_config:
        raise UsageError(
            "kgroups audit: reading a live cluster (--bootstrap-server) is not built yet: "
            "give --segments DIR, a broker's log directory or a copy of its __consumer_offsets-* folders"
        )
    if not arguments.segments:
        raise UsageError(
            "kgroups audit: nothing to read: --segments DIR names a folder with __consumer_offsets-<p> folders in it"
        )
    require_lake_path(lake_location(arguments))
    if any("://" in folder for folder in arguments.segments):
        return  # how to get there is known to Spark's Hadoop
    from kgroups_spark.sources.segments import find_partitions

    found = {copy.partition for copy in find_partitions(arguments.segments)}
    missing = sorted(set(arguments.partition or []) - found)
    if missing:
        raise UsageError(
            f"kgroups audit: no folder __consumer_offsets-{missing[0]} in {', '.join(arguments.segments)}; "
            f"there are partitions {number_ranges(sorted(found))}"
        )


def audit(arguments: argparse.Namespace, lake: str, segments: list[str]) -> AuditSummary:
    """What the audit did; with a progress line while it runs."""
    spark = start_spark("audit", lake)
    from kgroups_spark.audit.run import run_audit

    with work_told("the audit failed, and what it wrote does not count") as progress:
        return run_audit(spark, _audit_options(arguments, lake, segments, progress))


def _audit_options(arguments: argparse.Namespace, lake: str, segments: list[str], progress: Progress) -> AuditOptions:
    from kgroups_spark.audit.delete_retention import DEFAULT_DELETE_RETENTION_MS
    from kgroups_spark.audit.options import AuditOptions
    from kgroups_spark.coordinator.releases import NEWEST

    return AuditOptions(
        lake=lake,
        segments=segments,
        as_of=arguments.as_of,
        retention_ms=arguments.retention,
        release_version=arguments.release_version or NEWEST,
        partitions=sorted(set(arguments.partition)) if arguments.partition else None,
        offsets_partitions=arguments.offsets_partitions,
        full=arguments.full,
        delete_retention_ms=arguments.delete_retention or DEFAULT_DELETE_RETENTION_MS,
        strict=arguments.strict,
        writer=arguments.writer,
        take_over=arguments.take_over,
        progress=progress,
    )
