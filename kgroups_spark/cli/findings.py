"""what is odd, why it matters, and what to do

Prints the findings of the last audit, each once for a group: groups that a coordinator could not load, partitions with
two owners, transactions that do not end, offsets that expire unexpectedly soon, and so on. error: something fails or is
lost; warning: it may; notice: worth knowing. Every audit checks again. Only the audit that read the records reports
commit storms and the like.

examples:
  kgroups findings --lake ./lake
  kgroups findings --lake ./lake --severity error,warning --fail-if-any    exit 4 if there is one, for alerting
  kgroups findings --lake ./lake --group billing --all-audits              since when is that so?
  kgroups findings --lake ./lake --finding expiry_overdue,lost_when_emptied --format json

findings:
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial

from kgroups_spark.cli.form import (
    FAIL_IF_ANY,
    LAKE,
    ROWS,
    Option,
    fail_if_any,
    names_value,
    text_value,
    write,
)
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import filled, say, say_lines, screen_width, show, until_closed
from kgroups_spark.errors import KgroupsError
from kgroups_spark.findings.finders import has_looked
from kgroups_spark.findings.finding import KINDS, SEVERITIES, order
from kgroups_spark.lake.last_finished import IS_FINISHED, finished_backwards, removals
from kgroups_spark.sql.reader import LakeReader, Row, Rows, to_rows
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import cell_text, counted, did_you_mean, format_utc, printable, quoted, shell_word

EPILOG = "\n".join(f"  {name} ({kind.severity}): {kind.summary}" for name, kind in KINDS.items())
OPTIONS = (
    LAKE,
    Option("--severity SEVERITY,...", f"only of these severities: {', '.join(SEVERITIES)}", names_value(SEVERITIES)),
    Option("--finding NAME,...", "only these findings (names below)", names_value(tuple(KINDS))),
    Option("--group G ...", "only of this group; may be repeated", text_value),
    Option("--all-audits", "those of all audits, the last one's first"),
    FAIL_IF_ANY,
    *ROWS,
)
COLUMNS = TABLES["findings"].columns.names


def run(arguments: argparse.Namespace) -> int:
    reader = open_lake(arguments)
    audits = _audits(reader, arguments)
    rows = chosen_findings(reader, audits, arguments)
    if not rows:
        _require_groups(reader, arguments.group)
    if arguments.format == "table":
        with until_closed():
            _print_for_eyes(rows)
    else:
        write(rows, COLUMNS, (), arguments)
    counts = Counter(row["severity"] for row in rows)
    said = ", ".join(counted(counts[severity], severity) for severity in SEVERITIES)
    say(f"{said} ({_of_what(reader, audits)})")
    if arguments.all_audits:
        say_lines(
            f"kgroups maintain --keep (audit {by}) removed the findings of audits up to {up_to}"
            for up_to, by in sorted(removals(reader.table_rows))[-1:]
        )
    return fail_if_any(arguments, rows)


def chosen_findings(reader: LakeReader, audits: list[int], arguments: argparse.Namespace) -> Rows:
    """The findings of these audits that match the options: those of the last audit first, errors first."""
    asked = {"severity": arguments.severity, "finding": arguments.finding, "group_id": arguments.group}
    conditions = [Condition("audit_id", "==", audits[0])] if len(audits) == 1 else []
    conditions += [Condition(name, "in", names) for name, names in asked.items() if names is not None]
    rows = to_rows(reader.table_rows("findings", conditions=conditions))
    counting = set(audits)
    chosen = (row for row in rows if row["audit_id"] in counting)
    return sorted(chosen, key=lambda row: (-row["audit_id"], *order(row)))


def _audits(reader: LakeReader, arguments: argparse.Namespace) -> list[int]:
    """Numbers of the audits to report."""
    finished = finished_backwards(partial(reader.table_rows, "audits"), ["rows_added"], reader.audit_id)
    looked = (row["audit_id"] for row in finished if has_looked(row))
    last = next(looked, None)
    if last is None:
        raise KgroupsError(
            f"no audit of {reader.location} has looked for findings yet (older versions did not): run kgroups audit"
        )
    return [last, *looked] if arguments.all_audits else [last]


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
            raise KgroupsError(
                f"no group {quoted(group)} in the lake at {reader.location}{did_you_mean(group, known, shell_word)}"
            )


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
        for line in [heading] if width is None else filled(printable(heading), width):
            show(line)
        for line in filled(printable(row["detail"]), max(40, (width or 100) - 4)):
            show(f"    {line}")


def _about(row: Row) -> str:
    """` of group billing, topic orders-3`: the things that the row names."""
    partition = "" if row["partition"] is None else f"-{row['partition']}"
    named = {
        "group_id": f"group {cell_text(row['group_id'] or '')}",
        "topic": f"topic {cell_text(row['topic'] or '')}{partition}",
        "member_id": f"member {cell_text(row['member_id'] or '')}",
        "producer_id": f"producer {row['producer_id']}",
        "offsets_partition": f"__consumer_offsets-{row['offsets_partition']}",
    }
    reported = ", ".join(text for name, text in named.items() if row[name] is not None)
    return f" of {reported}" if reported else ""
