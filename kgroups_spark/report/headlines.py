"""The page in a few sentences about facts that call for action, the most urgent first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from kgroups_spark.counts import counted, first_of, group_count
from kgroups_spark.escapes import cell_text
from kgroups_spark.report.queries import Row
from kgroups_spark.report.sections.shared import Answers
from kgroups_spark.sentences import filled
from kgroups_spark.throwaway import throwaway_groups

_NAMED = 3


class Headline(NamedTuple):
    """A sentence, and the section with the details."""

    text: str
    section: str
    is_urgent: bool


def headlines(answers: Answers) -> list[Headline]:
    """The urgent facts; without any, one sentence to that effect."""
    found = [
        *_never_read(answers),
        *_expiring(answers),
        *_hanging(answers),
        *_read_again(answers),
        *_errors(answers),
        *_quarantined(answers),
        *_at_once(answers),
        *_lost(answers),
    ]
    if any(headline.is_urgent for headline in found):
        return found
    calm = "Nothing expires within 7 days, no transaction hangs"
    if not _last_moves(answers):
        calm += ", no offset was rewound or skipped ahead in the last 7 days"
    return [Headline(f"{calm}.", "expiring", False), *found]


def _expiring(answers: Answers) -> list[Headline]:
    soon = answers["expiring_soon"][0]
    if not soon["week_offsets"]:
        return []
    groups = soon["week_groups"]
    verb = "loses" if groups == 1 else "lose"
    first = _names(answers, answers["expiring_groups"][:groups])
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
    whose = f", with offsets of {_names(answers, named)}" if named else ""
    return [Headline(f"{counted(len(rows), 'transaction')} {likely}{verb}{whose}.", "transactions", True)]


# By event: the move back after which records are read again.
_READ_AGAIN = {
    "offset_rewound": "{groups:counted group} {groups:was|were} rewound in the last 7 days and {groups:reads|read} up "
    "to {records:counted record} again: {names}.",
    "offset_restarted": "{groups:counted group} began at lower offsets in the last 7 days, after {groups:its|their} "
    "offsets had been removed, and {groups:reads|read} up to {records:counted record} again: {names}.",
}
_NEVER_READ = (
    "{groups:counted group} skipped up to {records:counted record} in the last 7 days and will never read them: "
    "{names}."
)


def _never_read(answers: Answers) -> list[Headline]:
    return _of_moves(answers, _NEVER_READ, _last_moves(answers), "skipped")


def _read_again(answers: Answers) -> list[Headline]:
    moves = _last_moves(answers)
    return [
        headline
        for event, text in _READ_AGAIN.items()
        for headline in _of_moves(answers, text, [row for row in moves if row["event"] == event], "read_again")
    ]


def _of_moves(answers: Answers, text: str, moves: Sequence[Row], size: str) -> list[Headline]:
    rows = [row for row in moves if row[size]]
    if not rows:
        return []
    facts = {"groups": group_count(rows), "records": sum(row[size] for row in rows), "names": _names(answers, rows)}
    return [Headline(filled(text, facts), "moves", True)]


def _last_moves(answers: Answers) -> list[Row]:
    """The moves of the last 7 days."""
    since = answers["lake"][0]["as_of"] - timedelta(days=7)
    moments = ((row, row["event_timestamp"]) for row in answers["offset_moves"])
    return [row for row, moment in moments if moment is not None and moment > since]


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
    text = f"{offsets} of {groups} would be lost at once if the last member left: {_names(answers, rows)}."
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


def _names(answers: Answers, rows: Sequence[Row]) -> str:
    """The names of the first groups, and the number of others. Groups that were made for one run each have one name."""
    made = throwaway_groups((row["group_id"], bool(row["member_count"])) for row in answers["all_groups"])
    pattern_of = {name: pattern for pattern, names in made.items() for name in names}
    lots: dict[str, set[str]] = {}
    for name in (str(row["group_id"]) for row in rows):
        lots.setdefault(pattern_of.get(name, name), set()).add(name)
    names = [
        f"{name} ({counted(len(its), 'group')})" if len(its) > 1 else cell_text(*its) for name, its in lots.items()
    ]
    return first_of(names, _NAMED)
