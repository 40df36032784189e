r"""Two releases over one history: the differences in their state, their answers, their expiry and their load failures.

All of a lake's history is replayed once, into shards of both releases side by side; a shard is an offsets partition, as
always. Nothing in the lake changes, and only rows of finished audits count. History that `kgroups maintain --keep` has
reduced is replayed as a broker loads a compacted log. The cause of a difference is found by experiment: the groups that
differ are replayed once more, by A's rules with one of B's.

    history -> both shards -> differences, facts, expiry of both -> differences
                                  \-> those groups again, one rule after the other exchanged -> why
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.audit.differences import (
    Difference,
    Loaded,
    LoadFailure,
    LoadFailures,
    differences,
    reason,
    sentences,
    tried_clean_ups,
    tried_releases,
    with_causes,
    with_reasons,
    without_reason,
)
from kgroups_spark.coordinator.releases import Release, Topics, release, unknown_version
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import records_read, what_was_read
from kgroups_spark.lake.writer import make_readable
from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS
from kgroups_spark.offsets.columns import SlotRange
from kgroups_spark.offsets.expiry import DECISIONS, CleanUp
from kgroups_spark.replay.corrections import CorrectedAt, HistoryReplay
from kgroups_spark.replay.groups import ShardHistory
from kgroups_spark.replay.history_rows import coordinator_fails
from kgroups_spark.replay.shard import Night
from kgroups_spark.replay.shard_states import Stored, kept_checkpoints, task_shards
from kgroups_spark.replay.sinks import Fact
from kgroups_spark.replay.state import LogState
from kgroups_spark.replay.stored_history import PartReader, StoredHistory, StoredShard
from kgroups_spark.tables.definitions import LOAD_WOULD_FAIL
from kgroups_spark.tables.rows import plain
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import counted, format_time

# The cleaner's keys: the newest record of a key stays.
COMMIT_KEY = ("record_type", "group_id", "topic", "partition")
Key: TypeAlias = tuple[Any, ...]
GROUP_KEY = ("record_type", "group_id", "member_id", "regular_expression")
# The column with a decision's time, by the table of decisions.
WHEN = {"offset_expiry": "expires_at", "group_expiry": "deletes_at"}
NEVER = datetime(1, 1, 1, tzinfo=UTC)
_STATE = "state"  # all rules of a release's replay
# Differences by the name of the rule that was tried.
Tried: TypeAlias = Mapping[str, list[Difference]]


class ComparedShard(NamedTuple):
    """An offsets partition that several releases replay."""

    offsets_partition: int
    history: ShardHistory
    corrections: list[CorrectedAt]
    ranges: list[SlotRange]

    @classmethod
    def of(cls, shard: StoredShard) -> ComparedShard:
        """The shard's valid history, without the load failures of the audits' release, and without corrupt batches:
        what a load makes of them depends on their bytes, as no release checks a CRC."""
        history = shard.history({})
        records = history.quarantine.filter(~pc.field("reason").isin([LOAD_WOULD_FAIL["reason"], "corrupt_batch"]))
        history = history._replace(quarantine=records)
        return cls(int(history.log.partitions[0]), history, shard.corrections(), shard.ranges())

    def by(
        self, release: Release, clean_up: CleanUp | None = None, *, ends_at_undecodable: bool = True
    ) -> ReleaseReplay:
        """The replay by a release; `ends_at_undecodable`: its load also fails at undecodable records."""
        number = self.offsets_partition
        night = Night(0, release.name, None, Topics(), tried=release, clean_up=clean_up)
        replay = HistoryReplay(night, LogState(), self.history, self.ranges, self.corrections)
        for _ in replay.changes():
            pass
        failures = self._failures(replay, release, ends_at_undecodable)
        return ReleaseReplay(number, release, replay.state, failures, replay, self._skipped(release))

    def _failures(self, replay: HistoryReplay, release: Release, ends_at_undecodable: bool) -> LoadFailures:
        failing = self._failing(replay)
        found = [LoadFailure(log_offset, detail) for (log_offset, _), detail in failing.items()]
        count = len(found)
        rows = self.history.quarantine.filter(coordinator_fails(self.history.quarantine, release))
        is_decodable = not ends_at_undecodable or not len(rows)
        if not is_decodable:
            places = zip(*(rows.column(name).to_pylist() for name in ("log_offset", "reason", "detail")), strict=True)
            log_offset, reason, detail = min(places, key=lambda place: (place[0], place[1], place[2] or ""))
            found.insert(0, LoadFailure(log_offset, f"{reason}: {detail}"))
            count += max(1, pc.sum(rows.column("record_count")).as_py())
        may_be_compacted = is_decodable and bool(failing) and self._have_newer({key: at for at, key in sorted(failing)})
        return LoadFailures(min(found, key=lambda each: each.log_offset, default=None), count, may_be_compacted)

    def _failing(self, replay: HistoryReplay) -> dict[tuple[int, Key], str]:
        """The reasons by log offset and key of the records at which the load fails, undecodable ones aside."""
        found = {}
        for row in replay.unreadable.select([*COMMIT_KEY, "log_offset", "value_version"]).to_pylist():
            key = _key(row, COMMIT_KEY)
            found[row["log_offset"], key] = _detail(key, unknown_version(row["record_type"], row["value_version"]))
        for placed, detail in replay.failures:
            key = _key(placed.record._asdict(), GROUP_KEY)
            found[placed.log_offset, key] = _detail(key, detail)
        return found

    def _have_newer(self, newest: Mapping[Key, int]) -> bool:
        left, groups = set(newest), pa.array(sorted({key[1] for key in newest}))
        commits = ((COMMIT_KEY, self.history.commits(slots)) for slots in self.ranges)
        for names, rows in (*commits, (GROUP_KEY, self.history.group_records)):
            rows = rows.filter(pc.is_in(rows.column("group_id"), groups))
            columns = (rows.column(name).to_pylist() for name in (*names, "log_offset"))
            left -= {tuple(key) for *key, at in zip(*columns, strict=True) if at > newest.get(tuple(key), at)}
        return not left

    def _skipped(self, release: Release) -> Counter[int]:
        """Records that the release does not know and skips, by type."""
        if not release.skips_unknown_types:
            return Counter()
        counts = self.history.group_records.column("record_type").value_counts().to_pylist()
        known = release.record_types | release.unreplayable_types
        return Counter({each["values"]: each["counts"] for each in counts if each["values"] not in known})


@dataclass(frozen=True)
class ReleaseReplay(Loaded):
    """The result of one release for an offsets partition. `replay`: after all changes; `skipped`: records that the
    release does not know, by type."""

    replay: HistoryReplay
    skipped: Counter[int]

    @property
    def clean_up(self) -> CleanUp:
        assert self.replay.night.clean_up is not None, "replayed without a clean-up"
        return self.replay.night.clean_up

    @cached_property
    def decided(self) -> dict[str, pa.Table]:
        """offset_expiry and group_expiry of the release's state."""
        return {name: rows for name, rows in self.replay.current() if name in DECISIONS}

    def decided_by(self, clean_up: CleanUp) -> dict[str, pa.Table]:
        """The same by another clean-up."""
        assert self.decided  # whose tables decide
        return dict(clean_up.decided(self.replay.deciding))


def _key(row: Mapping[str, Any], names: Sequence[str]) -> Key:
    return tuple(row[name] for name in names)


def _detail(key: Key, failure: str) -> str:
    record_type, group_id, *_ = key
    return f"{CONSUMER_OFFSETS[record_type].name} (type {record_type}) of group {group_id}: {failure}"


def all_differences(a: ReleaseReplay, b: ReleaseReplay) -> Iterator[Difference]:
    """The differences of state, and then of decisions on entries that both have."""
    yield from differences(a, b)
    if not a.fails and not b.fails:
        yield from decision_differences(a.decided, b.decided)


def expiry_differences(a: ReleaseReplay, b: ReleaseReplay) -> Iterator[Difference]:
    """The differing decisions on entries that both have; with the rules that cause them, unless the state does, too."""
    found = [*decision_differences(a.decided, b.decided)]

    def tried(one: ReleaseReplay, other: ReleaseReplay) -> Tried:
        of_state = decision_differences(a.decided, other.decided_by(one.clean_up))
        return {_STATE: [*of_state], **by_expiry_rule(a, one, other)}

    return with_rules(found, a, b, tried) if found else iter(())


def by_rule(shard: ComparedShard, a: ReleaseReplay, one: ReleaseReplay, other: ReleaseReplay) -> Tried:
    """All differences from A of `one` with one rule of `other`, by rule."""
    rules = tried_releases(one.release, other.release)
    replays = ((name, shard.by(each, one.clean_up, ends_at_undecodable=False)) for name, each in rules.items())
    found = {name: [*all_differences(a, each)] for name, each in replays}
    of_state = [*differences(a, one)]
    return found | {name: [*of_state, *decided] for name, decided in by_expiry_rule(a, one, other).items()}


def by_expiry_rule(a: ReleaseReplay, one: ReleaseReplay, other: ReleaseReplay) -> Tried:
    """The differing decisions, from A, of `one` with one rule of expiry of `other`, by rule."""
    clean_ups = tried_clean_ups(one.clean_up, other.clean_up)
    return {name: [*decision_differences(a.decided, one.decided_by(each))] for name, each in clean_ups.items()}


def with_rules(
    found: Iterable[Difference],
    a: ReleaseReplay,
    b: ReleaseReplay,
    tried: Callable[[ReleaseReplay, ReleaseReplay], Tried],
) -> Iterator[Difference]:
    """Each difference with the rules of B that alone cause it; if there are none, the rules of A that alone remove it;
    if there are none, either, the rules of B that alone make another difference there. `tried`: as `by_rule`."""
    made, left = tried(a, b), tried(b, a)
    exactly = {rule: set(some) for rule, some in made.items()}
    with_b, with_a = ({rule: {each.key for each in some} for rule, some in of.items()} for of in (made, left))
    said = sentences(a.clean_up, b.clean_up)
    for each in found:
        make = [rule for rule, some in exactly.items() if each in some]
        end = [rule for rule, some in with_a.items() if each.key not in some]
        rules = make or end or [rule for rule, some in with_b.items() if each.key in some]
        yield each._replace(why=None if _STATE in rules else "; ".join(said[rule] for rule in rules) or None)


def decision_differences(a: Mapping[str, pa.Table], b: Mapping[str, pa.Table]) -> Iterator[Difference]:
    """The differing decisions of two clean-ups on entries that both have; those on offsets come first."""
    for name, when in WHEN.items():
        key = list(TABLES[name].key)
        of_a, of_b = (plain(each[name].select([*key, "decision", "reason", when])) for each in (a, b))
        both = of_a.join(of_b, key, join_type="inner", left_suffix="_a", right_suffix="_b", use_threads=False)
        is_other = pc.not_equal(both["decision_a"], both["decision_b"])
        is_later = pc.not_equal(*(pc.coalesce(both[f"{when}_{side}"], NEVER) for side in "ab"))
        rows = both.filter(pc.or_(is_other, is_later)).sort_by([(column, "ascending") for column in key])
        for row in rows.to_pylist():
            what = "decision" if row["decision_a"] != row["decision_b"] else when
            value_a, value_b = (_decision_text(row, what, side) for side in "ab")
            place = (name, row["offsets_partition"], row["group_id"], what, value_a, value_b)
            yield Difference(*place, topic=row.get("topic"), partition=row.get("partition"))


def _decision_text(row: Mapping[str, Any], what: str, side: str) -> str | None:
    value = row[f"{what}_{side}"]
    if what == "decision":
        return f"{value} ({row[f'reason_{side}']})"
    return None if value is None else format_time(value)


# Kinds of facts from tasks: a difference, or facts of one side.
_DIFFERENCE, _FACTS = "difference", ("a", "b")


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

    `failing`: the failures by offsets partition; `compacted_perhaps`: those where all failing records have newer ones
    of their keys. `unserved_groups`: groups there in the other release's state or, if it fails, too, in the one without
    those records. `skipped` (records by type) and `topic_ids` (offsets with one): of the others.
    """

    unserved_groups: int = 0
    unserved_offsets: int = 0
    topic_ids: int = 0
    failing: dict[int, str] = field(default_factory=dict)
    compacted_perhaps: set[int] = field(default_factory=set)
    skipped: Counter[int] = field(default_factory=Counter)
    names: set[str] = field(default_factory=set)

    def add(self, reported: dict[str, Any]) -> None:
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
    """The differences, and the facts to report before them. `as_of_ms`: when expiry is decided, epoch ms."""

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
    """The comparison over history, as of its last finished audit. `groups`: only these (empty: all)."""
    make_readable(lake)
    then, stored = LakeAsOfAudit.last_finished(lake), Stored(lake)
    records = records_read(what_was_read(lake, then.audit_id))
    is_reduced = kept_checkpoints(then).num_rows > 0
    found = Comparison(a, b, then.audit_id, as_of_ms, is_reduced, len(records))
    progress(f"replaying {counted(len(records), 'offsets partition')} by {a.release_version} and {b.release_version}")
    if not records:
        return found
    history = StoredHistory(stored.tables(then), replaced=then.replaced)
    sides = [(side.rules, side.clean_up(as_of_ms, then.audit_id)) for side in (a, b)]
    task = CompareTask(history, sides, frozenset(groups))
    for kind, reported in stored.facts(task_shards(records, lake.runner.slots), task.outputs):
        if kind == _DIFFERENCE:
            found.differences.append(Difference(*reported))
        else:
            found.facts[_FACTS.index(kind)].add(reported)
    found.differences = with_causes(found.differences)
    return found


class CompareTask(NamedTuple):
    """The differences of a shard between two sides, with the rules that cause them, and facts of each side. `groups`:
    only the differences of these (empty: of all)."""

    history: StoredHistory
    sides: Sequence[tuple[Release, CleanUp]]
    groups: frozenset[str] = frozenset()

    def outputs(self, reader: PartReader) -> Iterator[Fact]:
        """[kind, difference or facts of a side] as facts."""
        for number in reader.shards:
            found = list[Difference]()
            for kind, reported in self._compared(StoredShard(self.history, reader, number)):
                if kind != _DIFFERENCE:
                    yield Fact((kind, reported))
                elif not self.groups or reported.group_id is None or reported.group_id in self.groups:
                    found.append(reported)
            tried = dict[Difference, str]()
            if groups := without_reason(found):
                # The same history once more: only the groups that differ.
                history = replace(self.history, groups={number: frozenset(groups)})
                tried = {each.key: each.why for each in self._tried(StoredShard(history, reader, number)) if each.why}
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
