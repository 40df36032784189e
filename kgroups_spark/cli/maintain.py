"""compact small files, vacuum, and reduce old history

Keeps a lake small and fast. It runs between audits, under the same claim. Answers stay the same. If --keep is given,
older history is reduced as by Kafka's log cleaner: the last record of each key stays, even a tombstone, and values of
aborted transactions are removed; the state before it is saved first, so that a rebuild still gives the same tables.
Then small files are compacted and sorted by group, so that a query for one group reads a small part of them, and files
that no version within --vacuum needs are deleted. A killed run loses nothing; the next one does the rest.

examples:
  kgroups maintain --lake ./lake                 once a week, say
  kgroups maintain --lake ./lake --keep 400d     history older than that is reduced
  kgroups maintain --lake ./lake --keep 90d --dry-run

--keep counts back from the newest time in the log. Kafka cannot give reduced history back."""

from __future__ import annotations

import argparse

from kgroups_spark.audit.options import LEAST_VACUUM_MS, MaintainOptions, require_vacuum_allowed
from kgroups_spark.cli.form import LAKE, TAKE_OVER, WRITER, Option, options_of, positive_duration_value
from kgroups_spark.cli.open_lake import existing_lake, start_engine
from kgroups_spark.cli.output import say_lines, work_reported

OPTIONS = (
    LAKE,
    Option(
        "--optimize",
        "compact and sort small files of history (default), or leave them",
        more={"action": argparse.BooleanOptionalAction, "default": True},
    ),
    Option(
        "--vacuum D",
        "delete files that no version of the last D needs (default: 7d, the minimum)",
        positive_duration_value,
        LEAST_VACUUM_MS,
    ),
    Option(
        "--keep D",
        "reduce history older than D to the last record of each key (default: keep all)",
        positive_duration_value,
    ),
    Option("--dry-run", "only print what would be done"),
    TAKE_OVER,
    WRITER,
)


def run(arguments: argparse.Namespace) -> int:
    """Runs maintenance; prints its summary to stderr, as there are no rows."""
    require_vacuum_allowed(arguments.vacuum)
    location = existing_lake(arguments)
    engine = start_engine(arguments.engine, "maintain", location)
    from kgroups_spark.audit.maintain import run_maintain

    with work_reported("maintenance failed; run it again") as progress:
        summary = run_maintain(engine, options_of(MaintainOptions, arguments, lake=location, progress=progress))
    say_lines(summary.lines())
    return 0
