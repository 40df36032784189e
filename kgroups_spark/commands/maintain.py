"""`kgroups maintain`: compacts small files, deletes old ones, and reduces history that is not to be kept."""

from __future__ import annotations

import argparse

from kgroups_spark.errors import UsageError
from kgroups_spark.reading.open_lake import require_lake, require_lake_path
from kgroups_spark.reading.spark import start_spark
from kgroups_spark.terminal.options import (
    add_lake_option,
    add_take_over_option,
    add_writer_option,
    lake_location,
    options_of,
    positive_duration_value,
)
from kgroups_spark.terminal.output import say_lines
from kgroups_spark.terminal.progress import work_reported

NAME = "maintain"
SUMMARY = "compact small files, vacuum, and reduce old history"
DESCRIPTION = """\
Keeps a lake small and quick, between two audits and under their claim. Answers stay the same.
  1. History before --keep, if given, is reduced as Kafka's log cleaner would: the last record of each key stays,
     tombstones too, and values of aborted transactions go. The state before it is saved first, so that a rebuild
     still gives the same tables.
  2. The small files of many nights become few, sorted by group: a query for one group reads a small part of them.
  3. Files that no version of the last --vacuum needs are deleted.
If it is killed nothing is lost, and the next run does the rest."""
EXAMPLES = """\
examples:
  kgroups maintain --lake ./lake                 once a week, say
  kgroups maintain --lake ./lake --keep 400d     history older than that is reduced
  kgroups maintain --lake ./lake --keep 90d --dry-run

--keep counts back from the newest time in the log. Kafka cannot give reduced history back."""

SEVEN_DAYS_MS = 7 * 86_400_000


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `kgroups maintain`."""
    add_lake_option(parser)
    parser.add_argument(
        "--optimize",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="compact small files of history, sorted (default), or leave them",
    )
    parser.add_argument(
        "--vacuum",
        dest="vacuum_ms",
        type=positive_duration_value,
        default=SEVEN_DAYS_MS,
        metavar="D",
        help="delete files that no version of the last D needs (default: 7d, which is the least)",
    )
    parser.add_argument(
        "--keep",
        dest="keep_ms",
        type=positive_duration_value,
        metavar="D",
        help="reduce history older than D to the last record of each key (default: all is kept)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    add_writer_option(
        parser,
        "which writer makes the new files; as for kgroups audit (spark sorts nothing)",
    )
    add_take_over_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Maintains; the summary goes to stderr, as there are no rows."""
    location = lake_location(arguments)
    if arguments.vacuum_ms < SEVEN_DAYS_MS:
        raise UsageError(
            "--vacuum below 7d is refused: somebody may still read files that young, or they are "
            "what the last finished audit left while another one rewrites the current tables"
        )
    require_lake_path(location)
    require_lake(location)
    spark = start_spark(NAME, location)
    from kgroups_spark.upkeep.maintain import MaintainOptions, run_maintain

    with work_reported("maintenance failed; it can be repeated") as progress:
        summary = run_maintain(spark, options_of(MaintainOptions, arguments, lake=location, progress=progress))
    say_lines(summary.lines())
    return 0
