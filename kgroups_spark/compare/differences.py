"""Two releases over one offsets partition's log: the differences between their states.

Both have replayed the same records. A partition with a failing load serves nothing, so only its groups are compared:
each of them is missing as long as the failing record is in the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

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
# Rows by group and member; the member of a group's own row is None.
Entries: TypeAlias = "Mapping[tuple[str, str | None], GroupRow | MemberRow]"


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

    @property
    def is_decision(self) -> bool:
        return self.difference in (OFFSET_EXPIRY, GROUP_EXPIRY)

    @property
    def key(self) -> Difference:
        """The difference without its values and reason; decisions and their times are one."""
        return self._replace(what="" if self.is_decision else self.what, value_a=None, value_b=None, why=None)


class LoadFailure(NamedTuple):
    """A record at which a load ends."""

    log_offset: int
    detail: str


@dataclass(frozen=True)
class LoadFailures:
    """The records at which a release's load of one offsets partition fails: the first one (None: there is none), and
    the number of all.

    A log that was never compacted has records that a broker's own copy may no longer have. `may_be_compacted`: all
    failing records have newer records of their keys.
    """

    first: LoadFailure | None = None
    count: int = 0
    may_be_compacted: bool = False

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

    def members(self, group_ids: set[str]) -> Entries:
        """The members of some groups."""
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
        of_load, of_other = (f"fails at {each.failures}" if each.fails else "loads" for each in (a, b))
        yield Difference(LOAD, number, None, "load", of_load, of_other)
        yield from _unserved(a, b)
        return
    groups: list[Entries] = [{(name, None): row for name, row in each.groups.items()} for each in (a, b)]
    yield from _entries(GROUP, number, *groups)
    alike = {g for g in a.groups.keys() & b.groups.keys() if a.groups[g].group_type == b.groups[g].group_type}
    yield from _entries(MEMBER, number, a.members(alike), b.members(alike))
    yield from _offsets(COMMITTED, number, a.committed, b.committed)
    yield from _offsets(PENDING, number, a.pending, b.pending)


def _unserved(a: Loaded, b: Loaded) -> Iterator[Difference]:
    """The groups of a partition that one of the two fails to load."""
    failing, serving = (a, b) if a.fails else (b, a)
    number, unserved = serving.offsets_partition, WITHOUT_LOAD[failing.release.coordinator]
    why = f"{failing.release.name} could not load partition {number}"
    offsets = Counter(serving.committed["group_id"].to_pylist())
    for group_id, row in serving.groups.items():
        served = f"{_entry_text(row)}, offsets: {offsets[group_id]}"
        values = (unserved, served) if a.fails else (served, unserved)
        yield Difference(GROUP, number, group_id, "group", *values, why=why)


def _entries(kind: str, number: int, a: Entries, b: Entries) -> Iterator[Difference]:
    """The differences of groups, or of members. Columns are compared if both have the entry, and a group the same
    type."""
    for group_id, member_id in sorted(a.keys() | b.keys()):
        one, other = (of.get((group_id, member_id)) for of in (a, b))
        types = {getattr(row, "group_type", None) for row in (one, other)}
        if one is None or other is None or len(types) > 1:
            what = kind if one is None or other is None else "group_type"
            yield Difference(kind, number, group_id, what, _entry_text(one), _entry_text(other), member_id)
            continue
        for name in _GROUP if kind == GROUP else _MEMBER:
            value, other_value = (_comparable(getattr(row, name)) for row in (one, other))
            if value != other_value:
                yield Difference(kind, number, group_id, name, _text(value), _text(other_value), member_id)


def _entry_text(row: GroupRow | MemberRow | None) -> str | None:
    if isinstance(row, GroupRow):
        return f"{row.group_type}, {row.state}, members: {row.member_count}"
    return None if row is None else row.member_state or "member"


def _offsets(kind: str, number: int, a: pa.Table, b: pa.Table) -> Iterator[Difference]:
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
