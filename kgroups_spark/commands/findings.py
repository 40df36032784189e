"""`kgroups findings`: the findings of an audit, why they matter, and what to do."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from typing import Any

from kgroups_spark.commands.audits import removal_lines
from kgroups_spark.counts import counted
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.escapes import printable
from kgroups_spark.findings.finding import KINDS, SEVERITIES, order
from kgroups_spark.findings.looked import has_looked
from kgroups_spark.lake.last_finished import IS_FINISHED, finished_backwards
from kgroups_spark.lake.removed_audits import maintenances, removal_of
from kgroups_spark.nearest import did_you_mean
from kgroups_spark.reading.open_lake import open_lake
from kgroups_spark.reading.reader import LakeReader, Rows, to_rows
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.tables.layout import FINDINGS_BEFORE_7
from kgroups_spark.terminal.display import filled, words
from kgroups_spark.terminal.options import (
    add_engine_option,
    add_fail_if_any_option,
    add_format_option,
    add_lake_option,
    fail_if_any,
    names_value,
    positive_count_value,
    text_value,
)
from kgroups_spark.terminal.output import say, say_lines, screen_width, show, table_columns, until_closed, write_rows
from kgroups_spark.times import format_utc

NAME = "findings"
SUMMARY = "what is odd, why it matters, and what to do"
DESCRIPTION = """\
Prints the findings of the last audit, each once for a group: groups that a coordinator could not load, partitions with
two owners, transactions that do not end, offsets that expire unexpectedly soon, and so on. error: something fails or is
lost; warning: it may; notice: worth knowing. Every audit checks again. Only the audit that read the records reports
commit storms and the like."""
EXAMPLES = """\
examples:
  kgroups findings --lake ./lake
  kgroups findings --lake ./lake --severity error,warning --fail-if-any    exit 4 if there is one, for alerting
  kgroups findings --lake ./lake --group billing --all-audits              since when is that so?
  kgroups findings --lake ./lake --finding expiry_overdue,lost_when_emptied --format json

findings:
""" + "\n".join(f"  {name} ({kind.severity}): {kind.summary}" for name, kind in KINDS.items())

COLUMNS = table_columns("findings")


def add_options(parser: argparse.ArgumentParser) -> None:
    add_lake_option(parser)
    parser.add_argument(
        "--severity",
        type=names_value(SEVERITIES),
        metavar="SEVERITY,...",
        help=f"only of these severities: {', '.join(SEVERITIES)}",
    )
    parser.add_argument(
        "--finding", type=names_value(tuple(KINDS)), metavar="NAME,...", help="only these findings (names below)"
    )
    parser.add_argument(
        "--group",
        action="append",
        type=text_value,
        metavar="G",
        help="only of this group; may be repeated",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--audit", type=positive_count_value, metavar="N", help="those of audit N (default: the last one)"
    )
    which.add_argument("--all-audits", action="store_true", help="those of all audits, the last one's first")
    add_fail_if_any_option(parser)
    add_format_option(parser)
    add_engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    reader = open_lake(arguments)
    audits = _audits(reader, arguments)
    rows = chosen_findings(reader, audits, arguments)
    if not rows:
        _require_groups(reader, arguments.group)
    with until_closed():
        if arguments.format == "table":
            _print_for_eyes(rows)
        else:
            write_rows(rows, COLUMNS, arguments.format)
    say(f"{severity_counts(rows)} ({_of_what(reader, audits)})")
    if arguments.all_audits:
        say_lines(removal_lines(reader))
    return fail_if_any(arguments, rows)


def chosen_findings(reader: LakeReader, audits: list[int], arguments: argparse.Namespace) -> Rows:
    """The findings of these audits that match the options: those of the last audit first, errors first."""
    finding = _with_older_names(arguments.finding)
    asked = {"severity": arguments.severity, "finding": finding, "group_id": arguments.group}
    conditions = [Condition("audit_id", "==", audits[0])] if len(audits) == 1 else []
    conditions += [Condition(name, "in", names) for name, names in asked.items() if names is not None]
    rows = to_rows(reader.table_rows("findings", conditions=conditions))
    counting = set(audits)
    named = ({**row, "finding": FINDINGS_BEFORE_7.get(row["finding"], row["finding"])} for row in rows)
    chosen = (row for row in named if row["audit_id"] in counting)
    return sorted(chosen, key=lambda row: (-row["audit_id"], *order(row)))


def _with_older_names(asked: list[str] | None) -> list[str] | None:
    """The names, with their old names if no audit has migrated the lake to the present layout yet."""
    older = [before for before, name in FINDINGS_BEFORE_7.items() if name in (asked or ())]
    return None if asked is None else [*asked, *older]


def severity_counts(rows: Rows) -> str:
    """`2 errors, 1 warning, 0 notices`."""
    counts = Counter(row["severity"] for row in rows)
    return ", ".join(counted(counts[severity], severity) for severity in SEVERITIES)


def _audits(reader: LakeReader, arguments: argparse.Namespace) -> list[int]:
    """Numbers of the audits to report. Raises UsageError for one that did not look for findings."""
    finished = finished_backwards(partial(reader.table_rows, "audits"), ["rows_added"], reader.audit_id)
    looked = (row["audit_id"] for row in finished if has_looked(row))
    last = next(looked, None)
    if last is None:
        raise KgroupsError(
            f"no audit of {reader.location} has looked for findings yet (older versions did not): run kgroups audit"
        )
    if arguments.all_audits:
        return [last, *looked]
    if arguments.audit not in (None, last):
        asked = reader.ledger_rows(
            [Condition("audit_id", "==", arguments.audit), IS_FINISHED], ["audit_id", "rows_added"]
        )
        if not any(map(has_looked, asked)):
            removal = removal_of(maintenances(reader.table_rows), arguments.audit)
            if removal is not None:
                raise KgroupsError(
                    f"the findings of audit {arguments.audit} are gone: kgroups maintain --keep (audit {removal.by}) "
                    f"removed those of audits up to {removal.up_to}"
                )
            raise UsageError(
                f"audit {arguments.audit} did not look for findings: it has not finished, was maintenance, or does not "
                f"exist; the last one that did is {last} (kgroups audits lists them)"
            )
    return [arguments.audit or last]


def _require_groups(reader: LakeReader, groups: list[str] | None) -> None:
    """Raises KgroupsError for a group that does not exist and has never had a finding: most likely a typing error."""
    if not groups:
        return
    known = {
        name
        for table in ("groups", "findings")
        for name in reader.table_rows(table, ["group_id"])["group_id"].unique().to_pylist()
    } - {None}
    for group in groups:
        if group not in known:
            raise KgroupsError(f"no group '{group}' in the lake at {reader.location}{did_you_mean(group, known)}")


def _of_what(reader: LakeReader, audits: list[int]) -> str:
    if len(audits) > 1:
        return counted(len(audits), "audit")
    (row,) = reader.ledger_rows([Condition("audit_id", "==", audits[0]), IS_FINISHED], ["audit_id", "as_of"])
    return f"audit {audits[0]}, as of {format_utc(row['as_of'])}"


def _print_for_eyes(rows: Rows) -> None:
    """Prints a paragraph for each finding, because details are too long for a table's cell."""
    width = screen_width(sys.stdout)
    several = len({row["audit_id"] for row in rows}) > 1
    for row in rows:
        audit = f"audit {row['audit_id']}: " if several else ""
        since = "" if row["since"] is None else f", since {format_utc(row['since'])}"
        heading = f"{audit}{row['severity']} {row['finding']}{_about(row)}{since}"
        for line in [heading] if width is None else filled(words(printable(heading)), width):
            show(line)
        for line in filled(words(printable(row["detail"])), max(40, (width or 100) - 4)):
            show(f"    {line}")


def _about(row: dict[str, Any]) -> str:
    """` of group billing, topic orders-3`: the things that the row names."""
    topic = None if row["topic"] is None else f"topic {row['topic']}"
    if topic is not None and row["partition"] is not None:
        topic += f"-{row['partition']}"
    named = [
        None if row["group_id"] is None else f"group {row['group_id']}",
        topic,
        None if row["member_id"] is None else f"member {row['member_id']}",
        None if row["producer_id"] is None else f"producer {row['producer_id']}",
        None if row["offsets_partition"] is None else f"__consumer_offsets-{row['offsets_partition']}",
    ]
    reported = ", ".join(each for each in named if each is not None)
    return f" of {reported}" if reported else ""
