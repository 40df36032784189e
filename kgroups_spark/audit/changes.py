"""Changes since the previous audit: groups created and removed, states, sizes of the current tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow.compute as pc

from kgroups_spark.counts import counted, first_of
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.store import total_rows
from kgroups_spark.tables.schemas import TABLES

# The number of names on a line of the screen; the tables have all.
NAMES_REPORTED = 3

GroupKey = tuple[int, str]


@dataclass(frozen=True)
class CurrentTables:
    """The compared part of the current tables: each group's state by (offsets_partition, group_id), rows by table, and
    the number of offsets that expire at the next check."""

    states: Mapping[GroupKey, str] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    expiring: int = 0

    @cached_property
    def names(self) -> set[str]:
        """The names of the groups; one may be in two offsets partitions."""
        return {group_id for _, group_id in self.states}


def current_tables(lake: Lake, then: LakeAsOfAudit | None = None) -> CurrentTables:
    """The present tables, or those that an audit left, without the writes of a later unfinished audit."""

    def version(name: str) -> int | None:
        return None if then is None else then.version(name)

    groups = lake.rows("groups", version("groups"), columns=["offsets_partition", "group_id", "state"]).to_pydict()
    rows = {
        name: total_rows(lake.table(name).files(version(name)))
        for name, table in TABLES.items()
        if table.kind == "current"
    }
    decisions = lake.rows("offset_expiry", version("offset_expiry"), columns=["decision"]).column("decision")
    return CurrentTables(
        dict(zip(zip(groups["offsets_partition"], groups["group_id"], strict=True), groups["state"], strict=True)),
        rows,
        pc.sum(pc.equal(decisions, "expire")).as_py() or 0,
    )


@dataclass(frozen=True)
class Changes:
    """The difference between two CurrentTables: sorted group ids, and changes of state with their number of groups."""

    since_audit: int
    created: list[str]
    removed: list[str]
    moved: Counter[tuple[str, str]]
    members: int
    offsets: int
    expiring: int

    @classmethod
    def between(cls, since_audit: int, then: CurrentTables, now: CurrentTables) -> Changes:
        both = then.states.keys() & now.states.keys()
        return cls(
            since_audit,
            sorted(now.names - then.names),
            sorted(then.names - now.names),
            Counter((then.states[key], now.states[key]) for key in both if then.states[key] != now.states[key]),
            now.rows.get("group_members", 0) - then.rows.get("group_members", 0),
            now.rows.get("committed_offsets", 0) - then.rows.get("committed_offsets", 0),
            now.expiring - then.expiring,
        )

    def lines(self) -> Iterator[str]:
        """Lines for people; if nothing differs, one line with that statement."""
        parts = [*self._groups(), *self._sizes()]
        since = f"since audit {self.since_audit}"
        yield f"{since}: {'; '.join(parts)}" if parts else f"{since}: the same groups, in the same states"

    def _groups(self) -> Iterator[str]:
        if self.created:
            yield f"{_groups(len(self.created))} new ({first_of(self.created, NAMES_REPORTED)})"
        if self.removed:
            yield f"{_groups(len(self.removed))} gone ({first_of(self.removed, NAMES_REPORTED)})"
        if self.moved:
            moves = [f"{count:,} {then} to {now}" for (then, now), count in self.moved.most_common(NAMES_REPORTED)]
            others = sum(self.moved.values()) - sum(count for _, count in self.moved.most_common(NAMES_REPORTED))
            moves += [counted(others, "other")] if others else []
            yield f"states changed: {', '.join(moves)}"

    def _sizes(self) -> Iterator[str]:
        for difference, noun in ((self.members, "member"), (self.offsets, "committed offset")):
            if difference:
                yield f"{'+' if difference > 0 else '-'}{counted(abs(difference), noun)}"
        if self.expiring:
            yield f"{self.expiring:+,} expiring"


def _groups(count: int) -> str:
    return "1 group is" if count == 1 else f"{count:,} groups are"
