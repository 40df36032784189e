"""Two releases over one offsets partition's log: where the one would hold something else than the other.

Both shards have replayed the same records. A partition whose load fails serves nothing, so nothing but its groups is
compared then: each of them is gone for as long as the record stands in the log.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kgroups_spark.coordinator.releases import CONSUMER, SHARE, SHARE_40, STREAMS, Release
from kgroups_spark.coordinator.rows import CommittedRow, GroupRow, MemberRow, PendingRow
from kgroups_spark.coordinator.shard import Shard

LOAD, GROUP, MEMBER, COMMITTED, PENDING = "load", "group", "member", "committed_offset", "pending_offset"
OFFSET_EXPIRY, GROUP_EXPIRY = "offset_expiry", "group_expiry"

# Groups of a partition whose load fails. Scala: GroupMetadataManager.loadGroupsAndOffsets logs the error
# and owns the partition all the same (3.9). Java: CoordinatorRuntime leaves the shard FAILED (4.3).
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


class Difference(NamedTuple):
    """One thing that release A and release B do not hold alike. Values are texts; None: there is none, or no such
    thing. `why`: the rule, where it is known. `follows_from`: the kind of the difference that causes it, of the same
    group or load; None: it follows from no other."""

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


class LoadFailure(NamedTuple):
    """A record at which a load ends."""

    log_offset: int
    detail: str


@dataclass
class LoadFailures:
    """Where a release's load of one offsets partition ends.

    A log that was never compacted has records that a broker's own copy may have lost: `may_be_compacted` says that all
    failing ones have newer records of their keys.
    """

    first: LoadFailure | None = None
    count: int = 0
    _newest_of_keys: set[Hashable] = field(default_factory=set)
    _without_key: int = 0

    def failed(self, failure: LoadFailure, key: Hashable | None = None, count: int = 1) -> None:
        """Takes in a failing record (`count`: and others behind it), key None where it cannot be read."""
        if self.first is None or failure.log_offset < self.first.log_offset:
            self.first = failure
        self.count += count
        if key is None:
            self._without_key += count
        else:
            self._newest_of_keys.add(key)

    def loaded(self, key: Hashable) -> None:
        """Takes in a record that does not fail."""
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
    """The state that a release made of a partition's log, and where its load would have ended."""

    shard: Shard
    failures: LoadFailures

    @property
    def fails(self) -> bool:
        return self.failures.first is not None


def differences(a: Loaded, b: Loaded) -> Iterator[Difference]:
    """Everything that is not alike, by kind and then by name."""
    number = a.shard.offsets_partition
    if a.fails and b.fails:
        return
    if a.fails or b.fails:
        yield Difference(LOAD, number, None, "load", _load(a), _load(b))
        yield from _unserved(a, b)
        return
    groups_a, groups_b = ({row.group_id: row for row in each.shard.group_rows()} for each in (a, b))
    yield from _groups(number, groups_a, groups_b)
    alike = {g for g in groups_a.keys() & groups_b.keys() if groups_a[g].group_type == groups_b[g].group_type}
    yield from _members(number, a.shard, b.shard, alike)
    yield from _offsets(number, a.shard, b.shard)


def reason(difference: Difference, a: Release, b: Release) -> str | None:
    """Why it is, where the difference itself shows it; None: which rule it is must be tried."""
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
    """The groups of a partition that one of the two does not load."""
    failing, serving = (a, b) if a.fails else (b, a)
    shard = serving.shard
    why = f"{failing.shard.release.name} could not load partition {shard.offsets_partition}"
    for row in shard.group_rows():
        offsets = len(shard.offsets.committed.get(row.group_id, ()))
        served, unserved = f"{_group_text(row)}, offsets: {offsets}", WITHOUT_LOAD[failing.shard.release.coordinator]
        values = (unserved, served) if a.fails else (served, unserved)
        place = (GROUP, shard.offsets_partition, row.group_id, "group")
        yield Difference(*place, *values, why=why)


def _groups(number: int, a: dict[str, GroupRow], b: dict[str, GroupRow]) -> Iterator[Difference]:
    for group_id in sorted(a.keys() | b.keys()):
        one, other = a.get(group_id), b.get(group_id)
        if one is None or other is None:
            yield Difference(GROUP, number, group_id, "group", _group_text(one), _group_text(other))
            continue
        if one.group_type != other.group_type:
            yield Difference(GROUP, number, group_id, "group_type", _group_text(one), _group_text(other))
            continue
        for name in _GROUP:
            value, other_value = getattr(one, name), getattr(other, name)
            if value != other_value:
                yield Difference(GROUP, number, group_id, name, _text(value), _text(other_value))


def _group_text(row: GroupRow | None) -> str | None:
    return None if row is None else f"{row.group_type}, {row.state}, members: {row.member_count}"


def _members(number: int, a: Shard, b: Shard, groups: set[str]) -> Iterator[Difference]:
    """The differences between groups that both have, of the same type."""
    rows_a, rows_b = ({row[1:3]: row for row in shard.member_rows() if row.group_id in groups} for shard in (a, b))
    for key in sorted(rows_a.keys() | rows_b.keys()):
        group_id, member_id = key
        one, other = rows_a.get(key), rows_b.get(key)
        if one is None or other is None:
            yield Difference(MEMBER, number, group_id, "member", _member_text(one), _member_text(other), member_id)
            continue
        for name in _MEMBER:
            value, other_value = (_comparable(getattr(row, name)) for row in (one, other))
            if value != other_value:
                yield Difference(MEMBER, number, group_id, name, _text(value), _text(other_value), member_id)


def _member_text(row: MemberRow | None) -> str | None:
    return None if row is None else row.member_state or "member"


def _offsets(number: int, a: Shard, b: Shard) -> Iterator[Difference]:
    yield from _compared(number, COMMITTED, _committed(a), _committed(b), (*_OFFSET, "is_orphan"))
    yield from _compared(number, PENDING, _pending(a), _pending(b), _OFFSET)


# Producer (None: a committed one), group, topic, partition.
Key = tuple[int | None, str, str, int]
Offsets = Mapping[Key, CommittedRow | PendingRow]


def _committed(shard: Shard) -> Offsets:
    return {(None, row.group_id, row.topic, row.partition): row for row in shard.committed_rows()}


def _pending(shard: Shard) -> Offsets:
    return {(row.producer_id, row.group_id, row.topic, row.partition): row for row in shard.pending_rows()}


def _compared(number: int, kind: str, a: Offsets, b: Offsets, fields: tuple[str, ...]) -> Iterator[Difference]:
    """Where the offset differs the rest is another commit's."""
    for key in sorted(a.keys() | b.keys(), key=lambda key: (key[1:], key[0] or 0)):
        producer_id, group_id, topic, partition = key
        row, other = a.get(key), b.get(key)
        for name in fields:
            values = [None if each is None else _text(getattr(each, name)) for each in (row, other)]
            if values[0] != values[1]:
                yield Difference(
                    kind, number, group_id, name, values[0], values[1], None, producer_id, topic, partition
                )
                if name == "committed_offset":
                    break


def _comparable(value: Any) -> Any:
    """Assignments without order, and without epochs, of which older releases keep none."""
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
