"""the ledger: what each audit read, added and rejected

Prints one row for each of the newest 20 audits, the newest last. An audit that is `running` has claimed its number and
has not finished; nothing that it wrote counts until it does. It is `interrupted` if its process, on this host, has
ended, and `abandoned` once another audit has taken over. The notes tell what needs attention.

examples:
  kgroups audits --lake ./lake
  kgroups audits --lake ./lake --format json --limit 1      everything about the last one
  kgroups audits --lake ./lake --fail-if-older-than 26h     exit 4 if no audit has finished since, for alerting
  kgroups audits --lake ./lake --format csv --all           the whole ledger"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from typing import Any

from kgroups_spark.cli.form import LAKE, ROWS, Option, duration_value, positive_count_value, screen, write
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import say, say_lines, write_rows
from kgroups_spark.lake.last_finished import ABANDONED, RUNNING, STATUSES, Owner
from kgroups_spark.sql.reader import LakeReader, to_rows
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import counted, format_duration, to_epoch_ms

Row = dict[str, Any]

# A screen is too narrow for lists and maps: it has their sums instead, null if the audit has not finished.
ON_THE_SCREEN = """
SELECT audit_id, status, started_at, finished_at, as_of, release_version, source, owner, notes,
  array_length(read) AS partition_count,
  list_reduce(read, lambda total, records: total + records, CAST(0 AS BIGINT)) AS records_read,
  CASE
    WHEN read IS NOT NULL THEN coalesce(
      list_reduce(map_values(quarantined), lambda total, rows: total + rows, CAST(0 AS BIGINT)), 0
    )
  END AS quarantine_count,
  CASE WHEN read IS NOT NULL THEN coalesce(array_length(notes), 0) END AS note_count
FROM (
  SELECT *,
    list_transform(list_filter(partitions, lambda each: each.topic IS NULL), lambda each: each.records) AS read
  FROM audits
  WHERE audit_id >= :first
)"""
SCREEN = screen(
    "audit_id=AUDIT status started_at=STARTED* finished_at=FINISHED as_of=AS-OF_(UTC) release_version=RELEASE* source* "
    "partition_count=#PARTITIONS* records_read=#RECORDS quarantine_count=IN-QUARANTINE note_count=#NOTES*"
)

# A status that only this command knows: the ledger has `running`.
INTERRUPTED = "interrupted"
# The number of audits on a screen; also of those that become Python objects together.
LIMIT = 20
AT_ONCE = 100


OPTIONS = (
    LAKE,
    (
        Option("--limit N", f"only the newest N (default: {LIMIT})", positive_count_value, LIMIT),
        Option("--all", "all audits"),
    ),
    Option(
        "--fail-if-older-than DURATION", "exit 4 if the last audit finished longer ago, or none has", duration_value
    ),
    *ROWS,
)


def run(arguments: argparse.Namespace) -> int:
    reader = open_lake(arguments)
    numbers = reader.table_rows("audits", ["audit_id"])["audit_id"].unique().sort().to_pylist()
    chosen = numbers if arguments.all else numbers[-arguments.limit :]
    if arguments.format == "table":
        shown = reader.ask(ON_THE_SCREEN, {"first": chosen[0]}) if chosen else ()
        rows = one_row_an_audit(shown, max(numbers, default=0))
        write_rows(rows, SCREEN, "table")
        say_lines(f"audit {row['audit_id']}: {note}" for row in rows for note in row["notes"] or [])
    else:
        write(ledger_rows(reader, chosen), TABLES["audits"].columns.names, (), arguments)
    if len(chosen) < len(numbers):
        say(f"the newest {len(chosen):,} of {counted(len(numbers), 'audit')} (--all shows all)")
    return 0 if arguments.fail_if_older_than is None else _too_old(reader, arguments.fail_if_older_than)


def _too_old(reader: LakeReader, most_ms: int) -> int:
    """Exit code 4, and a line with the age, if the last audit finished longer ago."""
    if not reader.audit_id:
        say("no audit has finished")
        return 4
    age = int(time.time() * 1000) - to_epoch_ms(reader.last_audit["finished_at"])
    if age <= most_ms:
        return 0
    say(f"the last audit finished {format_duration(age)} ago, longer than {format_duration(most_ms)}")
    return 4


def ledger_rows(reader: LakeReader, numbers: list[int]) -> Iterator[Row]:
    """A row of the ledger for each of these audits. They are read in lots, because an audit has an entry for each
    partition, and those of ten years of nights are a gigabyte."""
    for first in range(0, len(numbers), AT_ONCE):
        some = numbers[first : first + AT_ONCE]
        span = [Condition("audit_id", ">=", some[0]), Condition("audit_id", "<=", some[-1])]
        yield from one_row_an_audit(to_rows(reader.table_rows("audits", None, span)), numbers[-1])


def one_row_an_audit(ledger: Iterable[dict[str, Any]], newest: int) -> list[dict[str, Any]]:
    """The last row of each audit, by number: `finished`, `abandoned` (also if it was killed before the ledger had such
    rows) or, only for the newest, `running`, or `interrupted` if its process is known to have ended."""
    in_order = sorted(ledger, key=lambda row: (row["audit_id"], STATUSES.index(row["status"])))
    rows = {row["audit_id"]: row for row in in_order}
    for number, row in rows.items():
        if row["status"] == RUNNING and number < newest:
            row["status"] = ABANDONED
        elif row["status"] == RUNNING and Owner.parse(row["owner"]).is_alive is False:
            row["status"] = INTERRUPTED
    return [*rows.values()]
