"""Differences between two releases for the screen: a table for each cause; each row counts its consequences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from kgroups_spark.compare.differences import COMMITTED, GROUP, GROUP_EXPIRY, LOAD, MEMBER, OFFSET_EXPIRY, Difference
from kgroups_spark.counts import counted
from kgroups_spark.terminal.display import words
from kgroups_spark.terminal.output import table_cell
from kgroups_spark.terminal.style import Style
from kgroups_spark.terminal.text_table import NULL, TextTable

_INDENT = "  "


def difference_lines(
    differences: Sequence[Difference], releases: tuple[str, str], width: int | None, style: Style
) -> Iterator[str]:
    """The lines of the screen: a heading for each cause, then the differences due to it, in their order."""
    causes: dict[str, list[Difference]] = defaultdict(list)
    reasons: dict[tuple[int, str | None, str], list[str | None]] = defaultdict(list)
    for each in differences:
        if each.follows_from is None:
            causes[_heading(each)].append(each)
            reasons[*each.place, each.difference].append(each.why)
    followers: dict[tuple[int, str | None, str, str | None], list[Difference]] = defaultdict(list)
    for each in differences:
        if each.follows_from is not None:
            cause = each.offsets_partition, None if each.follows_from == LOAD else each.group_id, each.follows_from
            why = each.why if each.why in reasons[cause] else reasons[cause][0]
            followers[*cause, why].append(each)
    for number, (heading, rows) in enumerate(causes.items()):
        yield from [""] * bool(number)
        yield style.heading(heading)
        # A cause's followers are counted once, in the first row of its group, kind and rule.
        taken = [followers.pop((*row.place, row.difference, row.why), []) for row in rows]
        table = _table(rows, releases, list(map(_follows, taken)))
        yield from (_INDENT + line for line in table.lines(None if width is None else width - len(_INDENT)))


def _heading(each: Difference) -> str:
    if each.difference == LOAD:
        return "Partitions of __consumer_offsets that only one release can load"
    return each.why or "Cause not found"


def _table(rows: Sequence[Difference], releases: tuple[str, str], follows: Sequence[str]) -> TextTable:
    """The table of these rows, without empty columns."""
    columns: dict[str, list[object]] = {
        "OFFSETS-PARTITION": [row.offsets_partition if row.group_id is None else None for row in rows],
        "GROUP": [row.group_id for row in rows],
        "MEMBER": [row.member_id for row in rows],
        "PRODUCER-ID": [row.producer_id for row in rows],
        "TOPIC": [row.topic for row in rows],
        "PARTITION": [row.partition for row in rows],
        "WHAT": [_what(row) for row in rows],
        releases[0]: [row.value_a for row in rows],
        releases[1]: [row.value_b for row in rows],
        "FOLLOWS": [text or None for text in follows],
    }
    kept = {
        name: cells for name, cells in columns.items() if name in releases or any(cell is not None for cell in cells)
    }
    table = TextTable(list(kept), releases)
    for cells in zip(*kept.values(), strict=True):
        reported = dict(zip(kept, map(table_cell, cells), strict=True))
        table.add([_broken(cell) if name in (*releases, "FOLLOWS") else cell for name, cell in reported.items()])
    return table


def _broken(cell: str | int) -> str | int:
    return words(cell) if isinstance(cell, str) and cell is not NULL else cell


def _what(row: Difference) -> str:
    """The field that differs, preceded by its object unless the name already begins with that."""
    if row.difference == GROUP or row.what.startswith(row.difference):
        return row.what
    return f"{row.difference} {row.what}"


def _follows(rows: Sequence[Difference]) -> str:
    """`6 offsets expire at another time, 2 of them at the next check; the group, too`; empty: there is nothing."""
    kinds: dict[str, list[Difference]] = defaultdict(list)
    for row in rows:
        kinds[row.difference].append(row)
    return "; ".join(_FOLLOWING[kind](found) for kind, found in kinds.items())


def _offsets_expire(rows: Sequence[Difference]) -> str:
    verb = "expires" if len(rows) == 1 else "expire"
    return f"{counted(len(rows), 'offset')} {verb} {_when(rows)}"


def _when(rows: Sequence[Difference]) -> str:
    """The time according to the second release; its next check if that removes them."""
    due = sum((row.value_b or "").startswith(("expire ", "delete ")) for row in rows)
    if due == len(rows):
        return "at the next check"
    return "at another time" + (f", {due:,} of them at the next check" if due else "")


_FOLLOWING: dict[str, Callable[[Sequence[Difference]], str]] = {
    GROUP: lambda rows: f"{counted(len({row.group_id for row in rows}), 'group')} not served",
    MEMBER: lambda rows: counted(len({row.member_id for row in rows}), "other member"),
    COMMITTED: lambda rows: f"{counted(len(rows), 'offset')} without a group",
    OFFSET_EXPIRY: _offsets_expire,
    GROUP_EXPIRY: lambda rows: f"the group is deleted {_when(rows)}",
}
