"""Each group by itself, under its own anchor: its committed offsets with their owners, and its newest events."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from urllib.parse import quote

from kgroups_spark.counts import counted
from kgroups_spark.escapes import cell_text
from kgroups_spark.report.figures import Table, table
from kgroups_spark.report.queries import Row
from kgroups_spark.report.words import CAUSES, EVENTS

_LONGEST_ANCHOR = 200
# By query.
CAPTIONS = {"group_offsets": "Committed offsets and owners", "newest_events": "Events, the newest first"}
_OFFSETS = (
    "topic Topic; partition Partition :count; committed_offset Committed offset :count; "
    "commit_timestamp- Committed (UTC) :time; client_id Owner; client_host- Its host; "
    "owned_since- Owner since (UTC) :time"
)
_EVENTS = (
    "event_timestamp When (UTC) :time; event Event; topic- Topic; partitions- Partitions :count; "
    "change Change, member or cause"
)


@dataclass(frozen=True)
class Group:
    """A group of the page. `name`: as tables show it; `tables`: at most 30 offsets and 15 events."""

    anchor: str
    name: str
    facts: str
    tables: Sequence[Table]


def groups_of(answers: Mapping[str, Sequence[Row]], fits: Callable[[Group], bool]) -> tuple[list[Group], int]:
    """The groups up to the first that does not fit, the urgent ones first; sorted by name. Also the number of other
    groups."""
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
        tables.append(_table("group_offsets", _OFFSETS, offsets, offsets[0]["partitions"]))
    if events:
        rows = [row | {"event": EVENTS.get(row["event"], row["event"]), "change": _change(row)} for row in events]
        tables.append(_table("newest_events", _EVENTS, rows, events[0]["of_group"]))
    return Group(anchor_of(name), cell_text(name), _facts(known), tables)


def _table(name: str, columns: str, rows: Sequence[Row], in_all: int) -> Table:
    caption = CAPTIONS[name]
    if len(rows) < in_all:
        caption += f" (the first {len(rows):,} of {in_all:,})"
    return table(name, caption, columns, rows)


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
    cause = CAUSES.get(row["cause"], row["cause"])
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
