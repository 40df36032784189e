"""An offsets partition's history by several releases -> the differences of two states, and their expiry decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.compare.differences import Difference, Loaded, LoadFailure, LoadFailures, differences
from kgroups_spark.compare.rules import sentences, tried_clean_ups
from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.replay_failure import unknown_version
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.decoding.load_failures import coordinator_fails, misread
from kgroups_spark.expiry.clean_up import CleanUp, deciding_tables
from kgroups_spark.expiry.matching import NOWHERE, columns_of, rows_among
from kgroups_spark.messages.record_types import CONSUMER_OFFSETS
from kgroups_spark.offsets.ranges import SlotRange
from kgroups_spark.replay.corrected_history import CorrectedAt, HistoryReplay
from kgroups_spark.replay.replay_shard import Night
from kgroups_spark.replay.shard_history import ShardHistory
from kgroups_spark.replay.shard_state import ShardState
from kgroups_spark.replay.stored_history import StoredShard
from kgroups_spark.tables.arrays import flags
from kgroups_spark.tables.quarantine import LOAD_WOULD_FAIL
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.times import format_time

# The cleaner's keys: the newest record of a key stays.
COMMIT_KEY = ("record_type", "group_id", "topic", "partition")
GROUP_KEY = ("record_type", "group_id", "member_id", "regular_expression")
# The column with a decision's time, by the table of decisions.
WHEN = {"offset_expiry": "expires_at", "group_expiry": "deletes_at"}
_STATE = "state"  # all rules of a release's replay


@dataclass(frozen=True)
class ComparedShard:
    """An offsets partition that several releases replay."""

    offsets_partition: int
    history: ShardHistory
    corrections: list[CorrectedAt]
    ranges: list[SlotRange]

    @classmethod
    def of(cls, shard: StoredShard) -> ComparedShard:
        """The shard's valid history, without the load failures of the audits' release, and without corrupt batches:
        what a load makes of them depends on their bytes, as no release checks a CRC."""
        history = shard.history()
        records = history.quarantine.filter(~pc.field("reason").isin([LOAD_WOULD_FAIL["reason"], "corrupt_batch"]))
        history = replace(history, quarantine=records)
        return cls(shard.offsets_partition, history, shard.corrections(), shard.ranges())

    def by(
        self, release: Release, clean_up: CleanUp | None = None, *, ends_at_undecodable: bool = True
    ) -> ReleaseReplay:
        """The replay by a release; `ends_at_undecodable`: its load also fails at undecodable records."""
        number = self.offsets_partition
        night = Night(0, release.name, None, Topics(), tried=release, clean_up=clean_up)
        replay = HistoryReplay(number, night, ShardState(), self.history, self.corrections, self.ranges)
        for _ in replay.changes():
            pass
        failures = LoadFailures()
        if ends_at_undecodable:
            self._count_undecodable(release, failures)
        for each in (self._commits_that_fail(replay), self._group_records_that_fail(replay, release)):
            each.count_into(failures)
        return ReleaseReplay(Loaded(number, release, replay.state, failures), replay, self._skipped(release))

    def _count_undecodable(self, release: Release, failures: LoadFailures) -> None:
        """Adds the first undecodable record at which the release's load fails, and their number."""
        rows = self.history.quarantine.filter(coordinator_fails(self.history.quarantine, release))
        places = [*zip(*(rows.column(name).to_pylist() for name in ("log_offset", "reason", "detail")), strict=True)]
        if places:
            log_offset, reason, detail = min(places, key=lambda place: (place[0], place[1], place[2] or ""))
            count = max(1, pc.sum(rows.column("record_count")).as_py())
            failures.failed(LoadFailure(log_offset, f"{reason}: {detail}"), count=count)

    def _commits_that_fail(self, replay: HistoryReplay) -> _Failing:
        found = _Failing(COMMIT_KEY, self._commit_keys)
        for row in replay.unreadable.select([*COMMIT_KEY, "log_offset", "value_version"]).to_pylist():
            detail = unknown_version(row["record_type"], row["value_version"])
            found.add(row, _detail(row["record_type"], row["group_id"], detail))
        return found

    def _group_records_that_fail(self, replay: HistoryReplay, release: Release) -> _Failing:
        found = _Failing(GROUP_KEY, lambda: self.history.group_records)
        for placed, detail in replay.failures:
            record = placed.record
            row = {name: getattr(record, name) for name in GROUP_KEY} | {"log_offset": placed.log_offset}
            found.add(row, _detail(record.record_type, record.group_id, detail))
        for row in misread(self.history.group_records, release, [*GROUP_KEY, "log_offset"]):
            if row["log_offset"] not in found.details:
                found.add(row, row["detail"])
        return found

    def _commit_keys(self) -> pa.Table:
        columns = [*COMMIT_KEY, "log_offset"]
        return pa.concat_tables([self.history.commits(slots).select(columns) for slots in self.ranges])

    def _skipped(self, release: Release) -> Counter[int]:
        """Records that the release does not know and skips, by type."""
        if not release.skips_unknown_types:
            return Counter()
        counts = self.history.group_records.column("record_type").value_counts().to_pylist()
        known = release.record_types | release.unreplayable_types
        return Counter({each["values"]: each["counts"] for each in counts if each["values"] not in known})


@dataclass
class _Failing:
    """Records at which a load fails: the reason and the key of each, by log offset."""

    columns: tuple[str, ...]
    records: Callable[[], pa.Table]
    details: dict[int, str] = field(default_factory=dict)
    keys: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any], detail: str) -> None:
        self.details[row["log_offset"]] = detail
        self.keys[row["log_offset"]] = tuple(row[name] for name in self.columns)

    def count_into(self, failures: LoadFailures) -> None:
        """Adds these records to `failures`, and the keys with a newer record that does not fail."""
        for log_offset in sorted(self.details):
            failures.failed(LoadFailure(log_offset, self.details[log_offset]), self.keys[log_offset])
        newest = {key: log_offset for log_offset, key in sorted(self.keys.items())}
        if not newest:
            return
        rows = self.records()
        rows = rows.filter(pc.is_in(rows.column("group_id"), pa.array(sorted({key[1] for key in newest}))))
        for *key, log_offset in zip(*(rows.column(n).to_pylist() for n in (*self.columns, "log_offset")), strict=True):
            if log_offset > newest.get(tuple(key), log_offset):
                failures.loaded(tuple(key))


@dataclass(frozen=True)
class ReleaseReplay:
    """The result of one release for an offsets partition.

    replay   after all changes
    skipped  records of types that the release does not know and skips, by type
    """

    loaded: Loaded
    replay: HistoryReplay
    skipped: Counter[int]

    @property
    def clean_up(self) -> CleanUp:
        """The clean-up with which it was replayed."""
        assert self.replay.night.clean_up is not None, "replayed without a clean-up"
        return self.replay.night.clean_up

    def decided(self, clean_up: CleanUp | None = None) -> dict[str, pa.Table]:
        """offset_expiry and group_expiry of the release's state, by its own clean-up or another one."""
        return dict((clean_up or self.clean_up).decided(self._deciding))

    @cached_property
    def _deciding(self) -> dict[str, pa.Table]:
        return deciding_tables(self.replay.deciding())


def _detail(record_type: int, group_id: str, failure: str) -> str:
    return f"{CONSUMER_OFFSETS[record_type].name} (type {record_type}) of group {group_id}: {failure}"


def all_differences(a: ReleaseReplay, b: ReleaseReplay) -> Iterator[Difference]:
    """The differences of state, and then of decisions on entries that both have."""
    yield from differences(a.loaded, b.loaded)
    if not a.loaded.fails and not b.loaded.fails:
        yield from decision_differences(a.decided(), b.decided())


def expiry_differences(a: ReleaseReplay, b: ReleaseReplay) -> Iterator[Difference]:
    """The differing decisions on entries that both have, with the rules of expiry that cause them; without a reason
    if the state takes part in it."""
    of_a, of_b = a.decided(), b.decided()
    found = [*decision_differences(of_a, of_b)]
    if not found:
        return
    tried = []
    for one, other in ((a, b), (b, a)):
        decided = {_STATE: other.decided(one.clean_up)}
        for rule, clean_up in tried_clean_ups(one.clean_up, other.clean_up).items():
            decided[rule] = one.decided(clean_up)
        tried.append({rule: [*decision_differences(of_a, each)] for rule, each in decided.items()})
    said = sentences(a.clean_up, b.clean_up)
    for each, rules in causing(found, *tried):
        yield each._replace(why=None if _STATE in rules else "; ".join(said[rule] for rule in rules) or None)


def causing(
    found: Iterable[Difference],
    with_one_of_b: Mapping[str, Collection[Difference]],
    with_one_of_a: Mapping[str, Collection[Difference]],
) -> Iterator[tuple[Difference, list[str]]]:
    """Each difference with the rules of B that alone cause it; if there are none, the rules of A that alone remove it;
    if there are none, either, the rules of B that alone make another difference there."""
    made = {rule: set(some) for rule, some in with_one_of_b.items()}
    with_b, with_a = ({rule: set(map(key, some)) for rule, some in of.items()} for of in (with_one_of_b, with_one_of_a))
    for each in found:
        make = [rule for rule, some in made.items() if each in some]
        end = [rule for rule, some in with_a.items() if key(each) not in some]
        yield each, make or end or [rule for rule, some in with_b.items() if key(each) in some]


def key(difference: Difference) -> Difference:
    """The difference without its values and reason; decisions and their times are one."""
    is_decision = difference.difference in WHEN
    what = "" if is_decision else difference.what
    return difference._replace(what=what, value_a=None, value_b=None, why=None)


def decision_differences(a: Mapping[str, pa.Table], b: Mapping[str, pa.Table]) -> Iterator[Difference]:
    """The differing decisions of two clean-ups on entries that both have; those on offsets come first."""
    for name, row in _differing(a, b):
        what = "decision" if row["decision_a"] != row["decision_b"] else WHEN[name]
        value_a, value_b = (_decision_text(row, what, side) for side in "ab")
        place = (name, row["offsets_partition"], row["group_id"], what, value_a, value_b)
        yield Difference(*place, topic=row.get("topic"), partition=row.get("partition"))


def _decision_text(row: Mapping[str, Any], what: str, side: str) -> str | None:
    value = row[f"{what}_{side}"]
    if what == "decision":
        return f"{value} ({row[f'reason_{side}']})"
    return None if value is None else format_time(value)


def _differing(a: Mapping[str, pa.Table], b: Mapping[str, pa.Table]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(table, row) of the differing decisions: the key, and both sides' decision, reason and time (epoch ms)."""
    for name, when in WHEN.items():
        key = list(TABLES[name].key)
        place = rows_among(columns_of(a[name], key), columns_of(b[name], key))
        of_a = a[name].filter(pa.array(place != NOWHERE))
        of_b = b[name].take(pa.array(place[place != NOWHERE]))
        values = {
            f"{column}_{side}": rows[column].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
            if column == when
            else rows[column]
            for side, rows in (("a", of_a), ("b", of_b))
            for column in ("decision", "reason", when)
        }
        both = pa.table({column: of_a[column] for column in key} | values)
        differs = np.zeros(both.num_rows, bool)
        for column in ("decision", when):
            one, other = (both[f"{column}_{side}"] for side in "ab")
            is_equal = flags(pc.equal(one, other))
            both_null = pc.and_(one.is_null(), other.is_null()).to_numpy(zero_copy_only=False)
            differs |= ~(is_equal | both_null).astype(bool)
        yield from ((name, row) for row in both.filter(pa.array(differs)).to_pylist())
