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
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgroups_spark.compare.causes import OTHER_GROUP, OTHER_OFFSETS, with_causes
from kgroups_spark.compare.differences import (
    GROUP,
    LOAD,
    Difference,
    Loaded,
    Place,
    differences,
    reason,
)
from kgroups_spark.compare.rules import RULES, sentences, tried_clean_ups, tried_releases
from kgroups_spark.compare.shards import (
    WHEN,
    ComparedShard,
    ReleaseReplay,
    all_differences,
    causing,
    decision_differences,
    expiry_differences,
    key,
)
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

# Kinds of facts from tasks: a difference, or facts of one side.
_DIFFERENCE, _FACTS = "difference", ("a", "b")
Sides = Sequence[tuple[Release, CleanUp]]


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
    not know and skips, by type, and `topic_ids`: offsets with a topic id, both in the partitions that it loads.
    `names`: all groups.
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
            self.skipped.update({int(kind): count for kind, count in reported["skipped"].items()})
        else:
            self.failing[number] = reported["failure"]
            self.unserved_groups += len(reported["groups"])
            self.unserved_offsets += reported["offsets"]
            if reported["may_be_compacted"]:
                self.compacted_perhaps.add(number)
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
    for kind, reported in history.reported(a, b, as_of_ms):
        if kind == _DIFFERENCE:
            found.differences.append(Difference(*reported))
        else:
            found.facts[_FACTS.index(kind)].add(reported)
    if groups:
        found.differences = [d for d in found.differences if d.group_id is None or d.group_id in groups]
    progress("finding out why")
    found.differences = with_causes(_with_reasons(history, found))
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
        return self.stored.facts(self.tasks, CompareTask(self.history, self._sides(a, b, as_of_ms)))

    def _sides(self, a: Side, b: Side, as_of_ms: int) -> Sides:
        return [(side.rules, side.clean_up(as_of_ms, self.audit_id)) for side in (a, b)]

    def explained(self, found: Comparison, places: Collection[Place]) -> Iterator[Difference]:
        """The differences of these groups (and perhaps of others), with the rules that cause them."""
        groups = dict[int, frozenset[str]]()
        for number, group_id in places:
            if group_id is not None:
                groups[number] = groups.get(number, frozenset()) | {group_id}
        slots = self.stored.lake.runner.slots
        tasks = task_shards({number: self.records[number] for number in groups}, slots)
        sides = self._sides(found.a, found.b, found.as_of_ms)
        task = ExplainTask(replace(self.history, groups=groups), sides)
        return (Difference(*reported) for reported in self.stored.facts(tasks, task))


@dataclass(frozen=True)
class CompareTask:
    """The differences of a shard between two sides, and facts of each."""

    history: StoredHistory
    sides: Sides

    def outputs(self, reader: PartReader, offsets_partition: int) -> Iterator[Fact]:
        """[kind, difference or facts of a side] as facts."""
        shard = ComparedShard.of(self.history.shard(reader, offsets_partition))
        yield from map(Fact, _reported([shard.by(*side) for side in self.sides]))


@dataclass(frozen=True)
class ExplainTask:
    """The differences of a shard between two sides, with the rules that cause them."""

    history: StoredHistory
    sides: Sides

    def outputs(self, reader: PartReader, offsets_partition: int) -> Iterator[Fact]:
        shard = ComparedShard.of(self.history.shard(reader, offsets_partition))
        a, b = (shard.by(*side, ends_at_undecodable=False) for side in self.sides)
        tried = [self._tried(shard, a, one, other) for one, other in ((a, b), (b, a))]
        said = sentences(a.clean_up, b.clean_up)
        for each, rules in causing(all_differences(a, b), *tried):
            yield Fact(each._replace(why="; ".join(said[rule] for rule in rules) or None))

    def _tried(
        self, shard: ComparedShard, a: ReleaseReplay, one: ReleaseReplay, other: ReleaseReplay
    ) -> dict[str, list[Difference]]:
        """The differences from A of `one` with one rule of `other`, by rule."""
        rules = tried_releases(one.loaded.release, other.loaded.release)
        clean_ups = tried_clean_ups(one.clean_up, other.clean_up)
        replays = {name: shard.by(each, one.clean_up, ends_at_undecodable=False) for name, each in rules.items()}
        return {name: [*all_differences(a, each)] for name, each in replays.items()} | {
            name: [*differences(a.loaded, one.loaded), *decision_differences(a.decided(), one.decided(each))]
            for name, each in clean_ups.items()
        }


def _reported(replays: Sequence[ReleaseReplay]) -> Iterator[tuple[str, Any]]:
    a, b = (each.loaded for each in replays)
    yield from ((_DIFFERENCE, each) for each in differences(a, b))
    served = a if b.fails else b
    yield from ((kind, facts(replay, served)) for kind, replay in zip(_FACTS, replays, strict=True))
    if not a.fails and not b.fails:
        yield from ((_DIFFERENCE, each) for each in expiry_differences(*replays))


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
    """The differences, each with the reason that it shows itself, or the rules that cause it by experiment. Where a
    release has not the group's type, what follows from that by its nature needs no experiment."""
    a, b = found.a.rules, found.b.rules
    reported = [each if each.why else each._replace(why=reason(each, a, b)) for each in found.differences]
    of_group = {each.place: each.why for each in reported if each.difference == GROUP and each.why}
    open_ones = {
        each.place
        for each in reported
        if not each.why and each.difference != LOAD and not (each.place in of_group and _is_of_its_group(each))
    }
    whys: dict[Difference, str] = {}
    if open_ones:
        whys = {key(each): each.why for each in history.explained(found, open_ones) if each.why}
    of_another_group = dict.fromkeys((each.place for each in reported if each.difference == GROUP), OTHER_GROUP)
    for number, each in enumerate(reported):
        why = each.why or whys.get(key(each))
        if each.place in of_group and why in (None, RULES["record_types"]):
            why = of_group[each.place]
        if why is None and each.difference in WHEN:
            why = of_another_group.get(each.place, OTHER_OFFSETS)
        reported[number] = each._replace(why=why)
    return reported


def _is_of_its_group(each: Difference) -> bool:
    return each.what == "is_orphan" or each.difference in WHEN
