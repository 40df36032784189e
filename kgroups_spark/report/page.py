"""The page: one file without external parts, so that it opens from a disk, a mail or a build server."""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from itertools import takewhile
from pathlib import PurePath
from typing import Any, NamedTuple
from urllib.parse import quote

import jinja2

from kgroups_spark.package_data import package_text
from kgroups_spark.report.figures import (
    DARK,
    LONG_WORD,
    ROWS_SHOWN,
    Ask,
    Plot,
    Row,
    Table,
    query,
    table,
)
from kgroups_spark.report.sections import QUESTIONS, Answers, sections
from kgroups_spark.words import (
    EVENTS,
    cause_text,
    cell_text,
    counted,
    filled,
    first_of,
    format_duration,
    format_time_for_people,
    group_count,
    patterns_of,
    printable,
)

_LONGEST_ANCHOR = 200


@dataclass(frozen=True)
class Group:
    """A group of the page. `name`: as tables show it; `tables`: at most 30 offsets and 15 events."""

    anchor: str
    name: str
    facts: str
    tables: Sequence[Table]


def groups_of(answers: Mapping[str, Sequence[Row]], fits: Callable[[Group], bool]) -> tuple[list[Group], int]:
    """The groups up to the first that does not fit, urgent ones first, sorted by name; and how many others."""
    known = {row["group_id"]: row for row in answers["all_groups"]}
    offsets, events = _by_group(answers["group_offsets"]), _by_group(answers["newest_events"])
    names = list(dict.fromkeys([*_urgent(answers), *known, *events]))
    each = (_group(name, known.get(name), offsets[name], events[name]) for name in names)
    found = [*takewhile(fits, each)]
    return sorted(found, key=lambda group: group.name), len(names) - len(found)


def anchor_of(group_id: str) -> str:
    """The id of the group's part of the page: its name, or its beginning and a digest if it is long."""
    name = quote(group_id, safe="")
    if len(name) > _LONGEST_ANCHOR:
        name = f"{name[:_LONGEST_ANCHOR]}-{hashlib.sha256(group_id.encode()).hexdigest()[:16]}"
    return f"group-{name}"


def _urgent(answers: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    for name in ("expiring_groups", "open_transactions", "offset_moves", "findings"):
        yield from (row["group_id"] for row in answers[name] if row["group_id"] is not None)
    yield from (row["group_id"] for row in answers["if_empty"] if row["at_once"])


def _by_group(rows: Iterable[Row]) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["group_id"]].append(row)
    return found


def _group(name: str, known: Row | None, offsets: Sequence[Row], events: Sequence[Row]) -> Group:
    tables = []
    if offsets:
        tables.append(_table("group_offsets", offsets, offsets[0]["partitions"]))
    if events:
        rows = [row | {"event": EVENTS.get(row["event"], row["event"]), "change": _change(row)} for row in events]
        tables.append(_table("newest_events", rows, events[0]["of_group"]))
    return Group(anchor_of(name), cell_text(name), _facts(known), tables)


def _table(name: str, rows: Sequence[Row], in_all: int) -> Table:
    found = table(name, rows)
    some = f" (the first {len(rows):,} of {in_all:,})" if len(rows) < in_all else ""
    return replace(found, caption=f"{found.caption}{some}")


def _facts(known: Row | None) -> str:
    if known is None:
        return "is gone"
    members, offsets = counted(known["member_count"] or 0, "member"), counted(known["offsets"], "offset")
    return f"{known['group_type']}, {known['state']}, {members}, {offsets}"


def _change(row: Row) -> str | None:
    """`Stable → Empty`, `9 → 4`, the member, or the cause. A move of several partitions has the offsets of the first
    one; several other events have their cause or number."""
    if row["member_id"] is not None:
        return str(row["member_id"]) if row["events"] == 1 else counted(row["events"], "member")
    cause = cause_text(row["cause"])
    before, after = row["offset_before"], row["offset_after"]
    if before is not None and after is not None:
        change = f"{before:,} → {after:,}"
        if row["events"] > 1:
            change += f" in partition {row['partition']}, and {counted(row['events'] - 1, 'other')}"
    elif row["events"] > 1 or row["value_before"] is None or row["value_after"] is None:
        return cause or (counted(row["events"], "change") if row["events"] > 1 else None)
    else:
        change = f"{row['value_before']} → {row['value_after']}"
    return change + (f" ({cause})" if cause else "")


_NAMED = 3


class Headline(NamedTuple):
    """A sentence, and the section with the details."""

    text: str
    section: str
    is_urgent: bool


def headlines(answers: Answers) -> list[Headline]:
    """The urgent facts; without any, one sentence to that effect."""
    found = [
        *_of_moves(answers, _NEVER_READ, _last_moves(answers), "skipped"),
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
    pattern_of = patterns_of(answers["all_groups"])
    lots: dict[str, set[str]] = {}
    for name in (str(row["group_id"]) for row in rows):
        lots.setdefault(pattern_of.get(name, name), set()).add(name)
    names = [
        f"{name} ({counted(len(its), 'group')})" if len(its) > 1 else cell_text(*its) for name, its in lots.items()
    ]
    return first_of(names, _NAMED)


BUDGET_BYTES = 4_990_000  # of a page that stays below 5 MB, with the sentence on the groups that it leaves out
_EACH_GROUP = "<!-- each group -->"  # the place of the groups in the page; no name can be markup


def report_page(
    ask: Ask, location: str, progress: Callable[[str], None] = lambda text: None, title: str | None = None
) -> str:
    """The HTML of the report of a lake with a finished audit. `progress` is called with each step. `title`: the
    cluster's name; None: its id, or the lake's location if the id is unknown."""
    answers: dict[str, list[dict[str, object]]] = {}
    for number, (heading, names) in enumerate(QUESTIONS.items(), 1):
        progress(f"asking the lake, {number} of {len(QUESTIONS)}: {heading}")
        answers.update({name: ask(query(name)) for name in names})
    progress("drawing")
    return html(answers, location, title)


def html(answers: Answers, location: str, title: str | None = None) -> str:
    script = package_text("report/page/report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    lake = answers["lake"][0]
    page: str = (
        _environment()
        .get_template("report.html")
        .render(
            title=printable(title or _title(lake, location)),
            location=printable(location),
            lake=lake,
            as_of=format_time_for_people(lake["as_of"]),
            retention=format_duration(lake["retention_ms"]),
            headlines=headlines(answers),
            sections=sections(answers),
            group_queries=[(each.caption, each.sql) for each in (table(name, ()) for name in QUESTIONS["Each group"])],
            # The page runs only this script, so its text never runs, even if it were not escaped.
            script=script,
            script_digest=digest,
            style=package_text("report/page/report.css"),
            dark=DARK,
            rows_shown=ROWS_SHOWN,
        )
    )
    return page.replace(_EACH_GROUP, _each_group(answers, BUDGET_BYTES - len(page.encode())), 1)


def _each_group(answers: Answers, budget_bytes: int) -> str:
    """The HTML of as many groups as the budget allows, and the number of others."""
    macros: Any = _environment().get_template("each_group.html").module
    parts: dict[str, str] = {}

    def fits(group: Group) -> bool:
        nonlocal budget_bytes
        parts[group.anchor] = str(macros.one(group))
        budget_bytes -= len(parts[group.anchor].encode())
        return budget_bytes >= 0

    groups, left_out = groups_of(answers, fits)
    return "".join(parts[group.anchor] for group in groups) + (str(macros.others(left_out)) if left_out else "")


def _title(lake: Row, location: str) -> str:
    """The cluster's id, or the lake's name without its folders."""
    if lake["cluster_id"] is not None:
        return f"Kafka cluster {lake['cluster_id']}"
    return PurePath(location).name or location


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: package_text(f"report/page/{name}")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Compact, and escaped by jinja2 for a script element, so that no name in it can end that element.
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    environment.filters["printable"] = printable
    environment.filters["time"] = lambda moment: "?" if moment is None else format_time_for_people(moment)[:16]
    environment.tests["long_worded"] = LONG_WORD.search
    environment.tests["table"] = lambda figure: isinstance(figure, Table)
    environment.tests["plot"] = lambda figure: isinstance(figure, Plot)
    return environment
