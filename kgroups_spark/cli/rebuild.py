"""rebuild the current-state and version tables from history

Replays the whole history of a lake and rebuilds what follows from it: group_versions, group_member_versions, the
current state, and the saved state for the next audit. It reads no segment. The result equals that of audits night by
night, by the rules of the release you name. Quarantined records that this version of kgroups-spark can decode are added
to history. An audit rebuilds by itself when the release or the rules have changed.

examples:
  kgroups rebuild --lake ./lake                          after a table was deleted or changed by another program
  kgroups rebuild --lake ./lake --release-version 3.9    the state of brokers of Kafka 3.9
  kgroups rebuild --lake ./lake --as-of 2026-11-16T06:41 --retention 14d

It costs two to three times the CPU of the audits that read the history. A killed rebuild changes nothing. The next
audit or rebuild repeats it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kgroups_spark.cli.form import (
    LAKE,
    OFFSETS_PARTITIONS,
    TAKE_OVER,
    WRITER,
    Option,
    options_of,
    positive_duration_value,
    release_value,
    time_value,
)
from kgroups_spark.cli.open_lake import existing_lake, start_engine
from kgroups_spark.cli.output import say_lines, work_reported

if TYPE_CHECKING:
    from kgroups_spark.audit.result import AuditSummary


OPTIONS = (
    LAKE,
    Option(
        "--release-version V",
        "the Kafka release whose rules replay and expiry follow, as in 4.3 or 3.9 (default: the last audit's)",
        release_value,
    ),
    Option("--as-of T", "judge expiry at T (default: as the last audit)", time_value),
    Option("--retention D", "offsets.retention.minutes (default: as the last audit)", positive_duration_value),
    OFFSETS_PARTITIONS,
    TAKE_OVER,
    WRITER,
)


def run(arguments: argparse.Namespace) -> int:
    """Runs the rebuild; prints its summary to stderr, as there are no rows."""
    say_lines(rebuild(arguments, existing_lake(arguments)).lines())
    return 0


def rebuild(arguments: argparse.Namespace, lake: str) -> AuditSummary:
    """Runs the rebuild, with a progress line; returns its result."""
    engine = start_engine(arguments.engine, "rebuild", lake)
    from kgroups_spark.audit.run import RebuildOptions, run_rebuild

    with work_reported("the rebuild failed; nothing that it wrote counts") as progress:
        return run_rebuild(engine, options_of(RebuildOptions, arguments, lake=lake, progress=progress))
