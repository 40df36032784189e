"""Two releases over one offsets partition's log: the differences between their states.

Both have replayed the same records. A partition with a failing load serves nothing, so only its groups are compared:
each of them is missing as long as the failing record is in the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.releases import CONSUMER, SHARE, SHARE_40, STREAMS, Release
from kgroups_spark.coordinator.rows import GroupRow, MemberRow
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.expiry.matching import unmatched
from kgroups_spark.replay.shard_state import ShardState

LOAD, GROUP, MEMBER, COMMITTED, PENDING = "load", "group", "member", "committed_offset", "pending_offset"
OFFSET_EXPIRY, GROUP_EXPIRY = "offset_expiry", "group_expiry"

# The state of groups in a partition with a failing load. Scala: GroupMetadataManager.loadGroupsAndOffsets logs the
# error and still owns the partition (3.9). Java: CoordinatorRuntime leaves the shard FAILED (4.3).
WITHOUT_LOAD = {
    "scala": "not found: no members, no offsets",
    "java": "unavailable: NOT_COORDINATOR",
}
OF_TYPE = {"consumer": CONSUMER, "share": SHARE | SHARE_40, "streams": STREAMS}

_GROUP = (
    "state",
    "protocol_type",
    "protocol",
    "generation",
    "group_epoch",
    "assignment_epoch",
    "leader",
    "current_state_timestamp",
    "member_count",
    "resolved_regex_topics",
)
_MEMBER = [
    name
    for name in MemberRow._fields
    if name not in ("offsets_partition", "group_id", "member_id", "user_data", "log_offset")
]
_OFFSET = ("committed_offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp")
# An offset: its producer (null: it is committed), its slot.
_KEY = ("producer_id", "group_id", "topic", "partition")
# An offsets partition and a group; None: the difference is about the partition.
Place = tuple[int, str | None]


class Difference(NamedTuple):
    """One difference between the states of release A and release B. Values are texts; None: that side has no value, or
    no such entry. `why`: the rule that causes it; None: unknown. `follows_from`: the kind of difference, of the same
    group or load, that causes it; None: it follows from no other."""

    difference: str
    offsets_partition: int
    group_id: str | None
    what: str
    value_a: str | None
    value_b: str | None
    member_id: str | None = None
    producer_id: int | None = None
    topic: str | None = None
    partition: int | None = None
    why: str | None = None
    follows_from: str | None = None

    @property
    def place(self) -> Place:
        return self.offsets_partition, self.group_id


class LoadFailure(NamedTuple):
    """A record at which a load ends."""

    log_offset: int
    detail: str


@dataclass
class LoadFailures:
    """The records at which a release's load of one offsets partition fails.

    A log that was never compacted has records that a broker's own copy may no longer have. `may_be_compacted`: all
    failing records have newer records of their keys.
    """

    first: LoadFailure | None = None
    count: int = 0
    _newest_of_keys: set[Hashable] = field(default_factory=set)
    _without_key: int = 0

    def failed(self, failure: LoadFailure, key: Hashable | None = None, count: int = 1) -> None:
        """Adds a failing record (`count`: the number, with others after it); key None: it cannot be read."""
        if self.first is None or failure.log_offset < self.first.log_offset:
            self.first = failure
        self.count += count
        if key is None:
            self._without_key += count
        else:
            self._newest_of_keys.add(key)

    def loaded(self, key: Hashable) -> None:
        """Adds a record that does not fail."""
        self._newest_of_keys.discard(key)

    @property
    def may_be_compacted(self) -> bool:
        return bool(self.count) and not self._newest_of_keys and not self._without_key

    def __str__(self) -> str:
        assert self.first is not None
        more = f" (and {self.count - 1} more)" if self.count > 1 else ""
        cleaned = "; newer records of the same keys follow, Kafka's cleaner may have removed it" * self.may_be_compacted
        return f"log offset {self.first.log_offset}: {self.first.detail}{more}{cleaned}"


@dataclass(frozen=True)
class Loaded:
    """A release's state of an offsets partition, and the records at which its load would have failed."""

    offsets_partition: int
    release: Release
    state: ShardState
    failures: LoadFailures

    @property
    def fails(self) -> bool:
        return self.failures.first is not None

    @cached_property
    def groups(self) -> dict[str, GroupRow]:
        """The groups by name."""
        return {name: group.row(self.offsets_partition) for name, group in sorted(self.state.groups.items())}

    def members(self, group_ids: set[str]) -> dict[tuple[str, str], MemberRow]:
        """The members of some groups by group and member id."""
        of, nowhere = self.state.groups, Topics()
        return {
            (name, member): of[name].member_row(self.offsets_partition, member, nowhere)
            for name in group_ids
            for member in of[name].members
        }

    @cached_property
    def committed(self) -> pa.Table:
        """The committed offsets: _KEY, _OFFSET and is_orphan."""
        offsets = self.state.offsets.offsets
        rows = offsets.filter(offsets["producer_id"].is_null()).select([*_KEY, *_OFFSET])
        is_known = pc.is_in(rows["group_id"].cast(pa.string()), pa.array([*self.state.groups], pa.string()))
        return rows.append_column("is_orphan", pc.invert(is_known))

    @cached_property
    def pending(self) -> pa.Table:
        """The pending offsets: _KEY and _OFFSET."""
        offsets = self.state.offsets.offsets
        return offsets.filter(offsets["producer_id"].is_valid()).select([*_KEY, *_OFFSET])


def differences(a: Loaded, b: Loaded) -> Iterator[Difference]:
    """All differences, by kind and then by name."""
    number = a.offsets_partition
    if a.fails and b.fails:
        return
    if a.fails or b.fails:
        yield Difference(LOAD, number, None, "load", _load(a), _load(b))
        yield from _unserved(a, b)
        return
    yield from _groups(number, a.groups, b.groups)
    alike = {g for g in a.groups.keys() & b.groups.keys() if a.groups[g].group_type == b.groups[g].group_type}
    yield from _members(number, a.members(alike), b.members(alike))
    yield from _offsets(number, COMMITTED, a.committed, b.committed)
    yield from _offsets(number, PENDING, a.pending, b.pending)


def reason(difference: Difference, a: Release, b: Release) -> str | None:
    """The reason if the difference itself shows it; None: rules must be tried to find it."""
    if difference.difference != GROUP or difference.what not in ("group", "group_type"):
        return None
    for value, other in ((difference.value_a, b), (difference.value_b, a)):
        group_type = (value or "").partition(",")[0]
        types = OF_TYPE.get(group_type)
        if types is not None and not types & other.record_types:
            return f"{other.name} does not know the records of {group_type} groups and skips them (KIP-915)"
    return None


def _load(loaded: Loaded) -> str:
    return f"fails at {loaded.failures}" if loaded.fails else "loads"


def _unserved(a: Loaded, b: Loaded) -> Iterator[Difference]:
    """The groups of a partition that one of the two fails to load."""
    failing, serving = (a, b) if a.fails else (b, a)
    number, unserved = serving.offsets_partition, WITHOUT_LOAD[failing.release.coordinator]
    why = f"{failing.release.name} could not load partition {number}"
    offsets = Counter(serving.committed["group_id"].to_pylist())
    for group_id, row in serving.groups.items():
        served = f"{_group_text(row)}, offsets: {offsets[group_id]}"
        values = (unserved, served) if a.fails else (served, unserved)
        yield Difference(GROUP, number, group_id, "group", *values, why=why)


def _groups(number: int, a: dict[str, GroupRow], b: dict[str, GroupRow]) -> Iterator[Difference]:
    for group_id in sorted(a.keys() | b.keys()):
        one, other = a.get(group_id), b.get(group_id)
        if one is None or other is None:
            yield Difference(GROUP, number, group_id, "group", _group_text(one), _group_text(other))
            continue
        if one.group_type != other.group_type:
            yield Difference(GROUP, number, group_id, "group_type", _group_text(one), _group_text(other))
            continue
        for name, value, other_value in _differing(one, other, _GROUP):
            yield Difference(GROUP, number, group_id, name, value, other_value)


def _group_text(row: GroupRow | None) -> str | None:
    return None if row is None else f"{row.group_type}, {row.state}, members: {row.member_count}"


Members = dict[tuple[str, str], MemberRow]


def _members(number: int, a: Members, b: Members) -> Iterator[Difference]:
    """The differences between groups that both have, of the same type."""
    for key in sorted(a.keys() | b.keys()):
        group_id, member_id = key
        one, other = a.get(key), b.get(key)
        if one is None or other is None:
            yield Difference(MEMBER, number, group_id, "member", _member_text(one), _member_text(other), member_id)
            continue
        for name, value, other_value in _differing(one, other, _MEMBER):
            yield Difference(MEMBER, number, group_id, name, value, other_value, member_id)


def _member_text(row: MemberRow | None) -> str | None:
    return None if row is None else row.member_state or "member"


def _offsets(number: int, kind: str, a: pa.Table, b: pa.Table) -> Iterator[Difference]:
    """The differences of offsets. If the offset itself differs, the other columns belong to another commit and are not
    compared."""
    rows, others = ({tuple(row[name] for name in _KEY): row for row in some.to_pylist()} for some in unmatched(a, b))
    for key in sorted(rows.keys() | others.keys(), key=lambda key: (key[1:], key[0] or 0)):
        producer_id, group_id, topic, partition = key
        row, other = rows.get(key, {}), others.get(key, {})
        for name in a.column_names[len(_KEY) :]:
            value, other_value = _text(row.get(name)), _text(other.get(name))
            if value != other_value:
                yield Difference(kind, number, group_id, name, value, other_value, None, producer_id, topic, partition)
                if name == "committed_offset":
                    break


def _differing(
    one: GroupRow | MemberRow, other: GroupRow | MemberRow, names: Sequence[str]
) -> Iterator[tuple[str, str | None, str | None]]:
    """The columns in which two rows differ, with both values as text."""
    for name in names:
        value, other_value = (_comparable(getattr(row, name)) for row in (one, other))
        if value != other_value:
            yield name, _text(value), _text(other_value)


def _comparable(value: Any) -> Any:
    """A value to compare: assignments without order, and without epochs, which older releases do not keep."""
    if not isinstance(value, list):
        return value
    return sorted(f"{p[0] or p[1]}-{p[2]}" if isinstance(p, tuple) else p for p in value)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return "; ".join(f"{name}: {', '.join(topics)}" for name, topics in sorted(value.items()))
    return str(value)
