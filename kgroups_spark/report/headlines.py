"""The page in a few sentences about facts that call for action, the most urgent first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from kgroups_spark.counts import counted, first_of, group_count
from kgroups_spark.escapes import printable
from kgroups_spark.report.queries import Row
from kgroups_spark.report.sections.shared import Answers

_NAMED = 3


class Headline(NamedTuple):
    """A sentence, and the section with the details."""

    text: str
    section: str
    is_urgent: bool


def headlines(answers: Answers) -> list[Headline]:
    """The urgent facts; without any, one sentence to that effect."""
    found = [
        *_expiring(answers),
        *_hanging(answers),
        *_moved(answers),
        *_errors(answers),
        *_quarantined(answers),
        *_at_once(answers),
        *_lost(answers),
    ]
    if any(headline.is_urgent for headline in found):
        return found
    calm = "Nothing expires within 7 days, no transaction hangs, no offset was rewound in the last 7 days."
    return [Headline(calm, "expiring", False), *found]


def _expiring(answers: Answers) -> list[Headline]:
    soon = answers["expiring_soon"][0]
    if not soon["week_offsets"]:
        return []
    groups = soon["week_groups"]
    verb = "loses" if groups == 1 else "lose"
    first = _names(answers["expiring_groups"][:groups])
    text = f"{counted(groups, 'group')} {verb} {counted(soon['week_offsets'], 'offset')} within 7 days: {first}."
    return [Headline(text + _due(soon), "expiring", True)]


def _due(soon: Row) -> str:
    due, within = soon["due_offsets"], soon["week_offsets"]
    if not due:
        return ""
    if due == within:
        return " It is due now." if due == 1 else " All of them are due now."
    return f" {due:,} of those offsets {'is' if due == 1 else 'are'} due now."


def _hanging(answers: Answers) -> list[Headline]:
    rows = [row for row in answers["open_transactions"] if row["is_hanging"]]
    if not rows:
        return []
    verb = "hangs" if len(rows) == 1 else "hang"
    likely = "" if answers["lake"][0]["has_transaction_state"] else "likely "
    named = [row for row in rows if row["group_id"] is not None]
    whose = f", with offsets of {_names(named)}" if named else ""
    return [Headline(f"{counted(len(rows), 'transaction')} {likely}{verb}{whose}.", "transactions", True)]


def _moved(answers: Answers) -> list[Headline]:
    since = answers["lake"][0]["as_of"] - timedelta(days=7)
    rows = [
        row
        for row in answers["offset_moves"]
        if row["read_again"] and row["event_timestamp"] is not None and row["event_timestamp"] > since
    ]
    if not rows:
        return []
    groups = group_count(rows)
    records = counted(sum(row["read_again"] for row in rows), "record")
    were, read = ("was", "reads") if groups == 1 else ("were", "read")
    text = f"{counted(groups, 'group')} {were} rewound in the last 7 days and {read} up to {records} again"
    return [Headline(f"{text}: {_names(rows)}.", "moves", True)]


def _errors(answers: Answers) -> list[Headline]:
    counts = {name: sum(row["severity"] == name for row in answers["findings"]) for name in ("error", "warning")}
    said = [counted(count, name) for name, count in counts.items() if count]
    if not said:
        return []
    kinds = list(dict.fromkeys(row["finding"] for row in answers["findings"] if row["severity"] in counts))
    more = ", ..." if len(kinds) > _NAMED else ""
    return [Headline(f"{' and '.join(said)} found: {', '.join(kinds[:_NAMED])}{more}.", "findings", True)]


def _quarantined(answers: Answers) -> list[Headline]:
    records = sum(row["records"] for row in answers["quarantine"])
    failing = [row for row in answers["quarantine"] if row["coordinator_fails"]]
    fatal = sum(row["entries"] for row in failing if row["reason"] != "corrupt_batch")  # it may be loaded
    if not records and not fatal:
        return []
    would_fail = f"; a coordinator would fail to load {counted(fatal, 'record')}" if fatal else ""
    return [Headline(f"{counted(records, 'record')} could not be used{would_fail}.", "quarantine", bool(failing))]


def _at_once(answers: Answers) -> list[Headline]:
    rows = [row for row in answers["if_empty"] if row["at_once"]]
    if not rows:
        return []
    offsets, groups = counted(sum(row["at_once"] for row in rows), "offset"), counted(group_count(rows), "group")
    text = f"{offsets} of {groups} would be lost at once if the last member left: {_names(rows)}."
    return [Headline(text, "if-empty", False)]


def _lost(answers: Answers) -> list[Headline]:
    lost = sum(row["lost"] or 0 for row in answers["coverage"])
    if not lost:
        return []
    return [
        Headline(
            f"{counted(lost, 'offset')} of the log were compacted away before an audit read them.", "coverage", False
        )
    ]


def _names(rows: Sequence[Row]) -> str:
    """The names of the first groups, and the number of others."""
    return first_of(list(dict.fromkeys(printable(row["group_id"]) for row in rows)), _NAMED)
