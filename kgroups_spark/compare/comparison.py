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
from functools import partial
from typing import Any

from kgroups_spark.compare.causes import with_causes, with_reasons, without_reason
from kgroups_spark.compare.differences import Difference, Loaded, differences, reason
from kgroups_spark.compare.shards import (
    ComparedShard,
    ReleaseReplay,
    all_differences,
    by_rule,
    expiry_differences,
    with_rules,
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
from kgroups_spark.replay.stored_history import StoredHistory, StoredShard
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
    """The comparison of both releases over the lake's history, as of its last finished audit. `groups`: only these
    (empty: all)."""
    make_readable(lake)
    then, stored = LakeAsOfAudit.last_finished(lake), Stored(lake)
    records = records_read(what_was_read(lake, then.audit_id))
    is_reduced = kept_checkpoints(then).num_rows > 0
    found = Comparison(a, b, then.audit_id, as_of_ms, is_reduced, len(records))
    progress(f"replaying {counted(len(records), 'offsets partition')} by {a.release_version} and {b.release_version}")
    if not records:
        return found
    history = StoredHistory(stored.tables_as_of(then), replaced=then.replaced)
    sides = [(side.rules, side.clean_up(as_of_ms, then.audit_id)) for side in (a, b)]
    task = CompareTask(history, sides, frozenset(groups))
    for kind, reported in stored.facts(task_shards(records, lake.runner.slots), task):
        if kind == _DIFFERENCE:
            found.differences.append(Difference(*reported))
        else:
            found.facts[_FACTS.index(kind)].add(reported)
    found.differences = with_causes(found.differences)
    return found


@dataclass(frozen=True)
class CompareTask:
    """The differences of a shard between two sides, with the rules that cause them, and facts of each side. `groups`:
    only the differences of these (empty: of all)."""

    history: StoredHistory
    sides: Sides
    groups: frozenset[str] = frozenset()

    def outputs(self, reader: PartReader, offsets_partition: int) -> Iterator[Fact]:
        """[kind, difference or facts of a side] as facts."""
        found = list[Difference]()
        for kind, reported in self._compared(self.history.shard(reader, offsets_partition)):
            if kind != _DIFFERENCE:
                yield Fact((kind, reported))
            elif not self.groups or reported.group_id is None or reported.group_id in self.groups:
                found.append(reported)
        tried = dict[Difference, str]()
        if groups := without_reason(found):
            # The same history once more: only the groups that differ.
            history = replace(self.history, groups={offsets_partition: frozenset(groups)})
            tried = {each.key: each.why for each in self._tried(history.shard(reader, offsets_partition)) if each.why}
        yield from (Fact((_DIFFERENCE, each)) for each in with_reasons(found, tried))

    def _compared(self, stored: StoredShard) -> Iterator[tuple[str, Any]]:
        shard = ComparedShard.of(stored)
        a, b = (shard.by(*side) for side in self.sides)
        for each in differences(a, b):
            yield _DIFFERENCE, each._replace(why=each.why or reason(each, a.release, b.release))
        served = a if b.fails else b
        yield from ((kind, facts(replay, served)) for kind, replay in zip(_FACTS, (a, b), strict=True))
        if not a.fails and not b.fails:
            yield from ((_DIFFERENCE, each) for each in expiry_differences(a, b))

    def _tried(self, stored: StoredShard) -> Iterator[Difference]:
        """The differences, with the rules that cause them by experiment."""
        shard = ComparedShard.of(stored)
        a, b = (shard.by(*side, ends_at_undecodable=False) for side in self.sides)
        return with_rules(all_differences(a, b), a, b, partial(by_rule, shard, a))


def facts(replay: ReleaseReplay, served: Loaded) -> dict[str, Any]:
    """The input of `Facts.add`, as a JSON value. `served`: the state of the release that loads the partition."""
    failures = replay.failures
    state = served.state if replay.fails and not served.fails else replay.state
    offsets = state.offsets.offsets
    offsets = offsets.filter(offsets["producer_id"].is_null())
    return {
        "offsets_partition": replay.offsets_partition,
        "groups": sorted(state.groups),
        "offsets": len(offsets),
        "topic_ids": len(offsets) - offsets["topic_id"].null_count,
        "failure": str(failures) if replay.fails else None,
        "may_be_compacted": failures.may_be_compacted,
        "skipped": dict(replay.skipped),
    }
