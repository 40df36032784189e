"""Two releases over one history: the differences in their state, their answers, their expiry and their load failures.

All of a lake's history is replayed once, into shards of both releases side by side; a shard is an offsets partition, as
always. Nothing in the lake changes, and only rows of finished audits count. History that `kgroups maintain --keep` has
reduced is replayed as a broker loads a compacted log. The cause of a difference is found by experiment: the groups that
differ are replayed once more, by A's rules with one of B's.

    history -> both shards -> differences, facts, expiry of both -> differences
                                  \\-> those groups again, one rule after the other exchanged -> why
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgroups_spark.compare.causes import OTHER_GROUP, OTHER_OFFSETS, with_causes
from kgroups_spark.compare.differences import (
    COMMITTED,
    GROUP,
    MEMBER,
    PENDING,
    Difference,
    Loaded,
    Place,
    differences,
    reason,
)
from kgroups_spark.compare.rules import RULES, tried_releases
from kgroups_spark.compare.shards import WHEN, ComparedShard, ReleaseReplay, expiry_differences
from kgroups_spark.coordinator.releases import Release, release
from kgroups_spark.counts import counted
from kgroups_spark.expiry.clean_up import CleanUp
from kgroups_spark.history.checkpoints import kept_checkpoints
from kgroups_spark.history.stored import Stored, task_shards
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger_rows import records_read, what_was_read
from kgroups_spark.lake.reach import make_readable
from kgroups_spark.replay.history_parts import PartReader
from kgroups_spark.replay.stored_history import StoredHistory
from kgroups_spark.replay.stored_tables import TaskShards
from kgroups_spark.tasks.outputs import Fact
from kgroups_spark.times import format_time

# Kinds of facts from tasks: a difference, or facts of one side; any other kind is the table of a row that expires
# differently.
_DIFFERENCE, _FACTS = "difference", ("a", "b")
_EXPLAINED = (GROUP, MEMBER, COMMITTED, PENDING)


@dataclass(frozen=True)
class Side:
    """A release, and its retention for expiry, in ms."""

    release_version: str
    retention_ms: int

    @property
    def rules(self) -> Release:
        return release(self.release_version)

    def clean_up(self, as_of_ms: int, audit_id: int) -> CleanUp:
        return CleanUp(as_of_ms, self.retention_ms, self.release_version, audit_id)


@dataclass
class Facts:
    """The offsets partitions that one release fails to load, and facts on all records and groups of its replay.

    `failing`: the failures by offsets partition. `compacted_perhaps`: failing partitions in which all failing records
    have newer records of their keys. `unserved_groups`: groups of failing partitions as the other release has them; if
    that fails to load them, too, in the state without those records. `skipped`: records of types that the release does
    not know, by type. `topic_ids`: offsets with a topic id, in the partitions that it loads. `names`: all groups.
    """

    unserved_groups: int = 0
    unserved_offsets: int = 0
    topic_ids: int = 0
    failing: dict[int, str] = field(default_factory=dict)
    compacted_perhaps: set[int] = field(default_factory=set)
    skipped: Counter[int] = field(default_factory=Counter)
    names: set[str] = field(default_factory=set)

    def add(self, reported: dict[str, Any]) -> None:
        """Adds the facts of an offsets partition."""
        number = reported["offsets_partition"]
        if reported["failure"] is None:
            self.topic_ids += reported["topic_ids"]
        else:
            self.failing[number] = reported["failure"]
            self.unserved_groups += len(reported["groups"])
            self.unserved_offsets += reported["offsets"]
            if reported["may_be_compacted"]:
                self.compacted_perhaps.add(number)
        self.skipped.update({int(kind): count for kind, count in reported["skipped"].items()})
        self.names.update(reported["groups"])


@dataclass
class Comparison:
    """The differences, and the facts to report before them. `audit_id`: the compared audit; `as_of_ms`: the time at
    which expiry is decided, epoch ms."""

    a: Side
    b: Side
    audit_id: int
    as_of_ms: int
    is_reduced: bool
    partitions: int
    facts: tuple[Facts, Facts] = field(default_factory=lambda: (Facts(), Facts()))
    differences: list[Difference] = field(default_factory=list)


def compare(
    lake: Lake, a: Side, b: Side, as_of_ms: int, *, groups: Collection[str] = (), progress: Callable[[str], None]
) -> Comparison:
    """The comparison of both releases over the lake's history. `groups`: only these (empty: all)."""
    history = _History.of(lake)
    found = Comparison(a, b, history.audit_id, as_of_ms, history.is_reduced, len(history.records))
    progress(
        f"replaying {counted(len(history.records), 'offsets partition')} by {a.release_version} and {b.release_version}"
    )
    decided_otherwise: list[tuple[str, dict[str, Any]]] = []
    for kind, reported in history.reported(a, b, as_of_ms):
        if kind == _DIFFERENCE:
            found.differences.append(Difference(*reported))
        elif kind in _FACTS:
            found.facts[_FACTS.index(kind)].add(reported)
        else:
            decided_otherwise.append((kind, reported))
    if groups:
        found.differences = [d for d in found.differences if d.group_id is None or d.group_id in groups]
        decided_otherwise = [(kind, row) for kind, row in decided_otherwise if row["group_id"] in groups]
    progress("finding out why")
    found.differences = _with_reasons(history, found)
    found.differences = with_causes([*found.differences, *_expiry_differences(decided_otherwise, found)])
    return found


@dataclass(frozen=True)
class _History:
    """All of the lake's history, as of its last finished audit. `records`: their number by offsets partition."""

    stored: Stored
    history: StoredHistory
    tasks: TaskShards
    records: Counter[int]
    audit_id: int
    is_reduced: bool

    @classmethod
    def of(cls, lake: Lake) -> _History:
        make_readable(lake)
        then, stored = LakeAsOfAudit.last_finished(lake), Stored(lake)
        records = records_read(what_was_read(lake, then.audit_id))
        tasks = task_shards(records, lake.runner.slots)
        history = StoredHistory(stored.tables_as_of(then), replaced=then.replaced)
        return cls(stored, history, tasks, records, then.audit_id, kept_checkpoints(then).num_rows > 0)

    def reported(self, a: Side, b: Side, as_of_ms: int) -> list[tuple[str, Any]]:
        """The differences and facts of both, each with its kind."""
        if not self.records:
            return []
        sides = [(side.rules, side.clean_up(as_of_ms, self.audit_id)) for side in (a, b)]
        return self.stored.facts(self.tasks, CompareTask(self.history, sides))

    def explained(self, a: Release, b: Release, places: Collection[Place]) -> Iterator[Difference]:
        """The differences of these groups (and perhaps of others), with the rules that cause them."""
        groups = dict[int, frozenset[str]]()
        for number, group_id in places:
            if group_id is not None:
                groups[number] = groups.get(number, frozenset()) | {group_id}
        slots = self.stored.lake.runner.slots
        tasks = task_shards({number: self.records[number] for number in groups}, slots)
        task = ExplainTask(replace(self.history, groups=groups), a, b)
        return (Difference(*reported) for reported in self.stored.facts(tasks, task))


@dataclass(frozen=True)
class CompareTask:
    """The differences of a shard between two sides, and facts of each."""

    history: StoredHistory
    sides: Sequence[tuple[Release, CleanUp]]

    def outputs(self, reader: PartReader, offsets_partition: int) -> Iterator[Fact]:
        """[kind, difference or facts of a side] as facts."""
        shard = ComparedShard.of(self.history.shard(reader, offsets_partition))
        yield from map(Fact, _reported([shard.by(*side) for side in self.sides]))


@dataclass(frozen=True)
class ExplainTask:
    """The differences of a shard between two releases, with the rules that cause them."""

    history: StoredHistory
    a: Release
    b: Release

    def outputs(self, reader: PartReader, offsets_partition: int) -> Iterator[Fact]:
        shard = ComparedShard.of(self.history.shard(reader, offsets_partition))
        tried, back = tried_releases(self.a, self.b), tried_releases(self.b, self.a)
        releases = [self.a, self.b, *tried.values(), *back.values()]
        one, other, *rest = (shard.by(each, ends_at_undecodable=False).loaded for each in releases)
        with_one_of_b = {name: set(differences(one, each)) for name, each in zip(tried, rest, strict=False)}
        with_one_of_a = {name: set(differences(one, each)) for name, each in zip(back, rest[len(tried) :], strict=True)}
        for each in differences(one, other):
            yield Fact(each._replace(why=_rules(each, with_one_of_b, with_one_of_a)))


def _rules(
    difference: Difference, with_one_of_b: dict[str, set[Difference]], with_one_of_a: dict[str, set[Difference]]
) -> str | None:
    """The rules of B that alone cause the difference; if there are none, the rules of A that alone remove it."""
    make = [name for name, found in with_one_of_b.items() if difference in found]
    keys = {name: {_key(each) for each in found} for name, found in with_one_of_a.items()}
    end = [name for name, found in keys.items() if _key(difference) not in found]
    return "; ".join(RULES[name] for name in make or end) or None


def _key(difference: Difference) -> Difference:
    """The difference without its values and reason."""
    return difference._replace(value_a=None, value_b=None, why=None)


def _reported(replays: Sequence[ReleaseReplay]) -> Iterator[tuple[str, Any]]:
    a, b = (each.loaded for each in replays)
    yield from ((_DIFFERENCE, each) for each in differences(a, b))
    served = a if b.fails else b
    yield from ((kind, facts(replay, served)) for kind, replay in zip(_FACTS, replays, strict=True))
    if not a.fails and not b.fails:
        yield from expiry_differences(*replays)


def facts(replay: ReleaseReplay, served: Loaded) -> dict[str, Any]:
    """The input of `Facts.add`, as a JSON value. `served`: the state of the release that loads the partition."""
    loaded, failures = replay.loaded, replay.loaded.failures
    state = served.state if loaded.fails and not served.fails else loaded.state
    offsets = state.offsets.offsets
    offsets = offsets.filter(offsets["producer_id"].is_null())
    return {
        "offsets_partition": loaded.offsets_partition,
        "groups": sorted(state.groups),
        "offsets": len(offsets),
        "topic_ids": len(offsets) - offsets["topic_id"].null_count,
        "failure": str(failures) if loaded.fails else None,
        "may_be_compacted": failures.may_be_compacted,
        "skipped": dict(replay.skipped),
    }


def _with_reasons(history: _History, found: Comparison) -> list[Difference]:
    a, b = found.a.rules, found.b.rules
    reported = [each if each.why else each._replace(why=reason(each, a, b)) for each in found.differences]
    of_group = {each.place: each.why for each in reported if each.difference == GROUP and each.why}
    open_ones = {each.place for each in reported if each.difference in _EXPLAINED and not each.why} - of_group.keys()
    whys: dict[Difference, str] = {}
    if open_ones:
        whys = {_key(each): each.why for each in history.explained(a, b, open_ones) if each.why}
    return [
        each if each.why else each._replace(why=whys.get(_key(each)) or of_group.get(each.place)) for each in reported
    ]


def _expiry_differences(
    decided_otherwise: Iterable[tuple[str, dict[str, Any]]], found: Comparison
) -> Iterator[Difference]:
    """Offsets first: their differences explain a group's."""
    changed_groups = {each.place for each in found.differences if each.difference == GROUP}
    differing = {each.place for each in found.differences}
    for table, row in sorted(decided_otherwise, key=lambda each: list(WHEN).index(each[0])):
        reported = _expiry_difference(table, WHEN[table], row, changed_groups)
        if reported.why is None and reported.place in differing:
            reported = reported._replace(why=OTHER_OFFSETS)
        differing.add(reported.place)
        yield reported


def _expiry_difference(kind: str, when: str, row: dict[str, Any], changed_groups: Collection[Place]) -> Difference:
    what = "decision" if row["decision_a"] != row["decision_b"] else when
    value_a, value_b = (_expiry_text(row, what, side) for side in "ab")
    why = OTHER_GROUP if (row["offsets_partition"], row["group_id"]) in changed_groups else row["why"]
    place = (kind, row["offsets_partition"], row["group_id"], what)
    return Difference(*place, value_a, value_b, topic=row.get("topic"), partition=row.get("partition"), why=why)


def _expiry_text(row: dict[str, Any], what: str, side: str) -> str | None:
    value = row[f"{what}_{side}"]
    if what == "decision":
        return f"{value} ({row[f'reason_{side}']})"
    return None if value is None else format_time(value)
