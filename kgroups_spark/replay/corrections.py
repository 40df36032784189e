"""The differences between a state that was carried from audit to audit and the log as it is now.

The cleaner may compact tombstones and markers away between two audits. The carried state then still has what they
ended, while a replay of the log from its start does not. Both are states of one log at one offset, and the log is
right.

Only differences in substance count. If a group differs only in the log offset and the time of its record
(`log_offset`, `state_since`), the carried group stays: it has seen records that the log no longer has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.consumer_group import ConsumerGroup
from kgroups_spark.coordinator.conversions import Group
from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.state_entries import (
    OWN_FIELDS,
    group_row,
    noted_row,
    producer_row,
    saved_and_loaded,
)
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.coordinator.versions import Place, Version, before, changes
from kgroups_spark.expiry.matching import unmatched
from kgroups_spark.offsets.state import OffsetState
from kgroups_spark.replay.checkpoint_rows import (
    OFFSET_COLUMNS,
    loaded,
    noted_producers,
    offset_fields,
    open_transactions,
    plain_entries,
)
from kgroups_spark.replay.shard_state import ShardState


class Correction(NamedTuple):
    """An entry that replaces one of the carried state; `payload` None removes it. A producer's payload has its id;
    without transaction and pending offsets the producer is removed."""

    entry_type: str
    group_id: str | None
    payload: str | None

    @property
    def is_gone(self) -> bool:
        """Whether the log no longer has the entry."""
        if self.entry_type == "producer":
            return "transaction" not in orjson.loads(self.payload or "{}")
        return self.payload is None

    @property
    def producer_id(self) -> int | None:
        """The producer of the entry; None: it is not a producer's."""
        is_of_producer = self.entry_type == "producer"
        return orjson.loads(self.payload or "{}").get("producer_id") if is_of_producer else None

    @property
    def entry(self) -> tuple[str, str | None, int | None]:
        """The key of the entry: its type, group and producer."""
        return self.entry_type, self.group_id, self.producer_id


def corrections(carried: ShardState, reported: ShardState) -> Iterator[Correction]:
    """The corrections that turn the carried state into that of the log, in no particular order."""
    names = [*OFFSET_COLUMNS, "producer_id"]
    offsets = pa.concat_tables(unmatched(*(each.offsets.offsets.select(names) for each in (carried, reported))))
    is_committed = offsets["producer_id"].is_null()
    yield from _of_groups(carried, reported, set(offsets.filter(is_committed)["group_id"].to_pylist()))
    others = set(offsets.filter(pc.invert(is_committed))["producer_id"].to_pylist())
    yield from _of_producers(carried.offsets, reported.offsets, others)
    yield from _of_noted_producers(noted_producers(carried.offsets), noted_producers(reported.offsets))


def corrected(state: ShardState, found: Sequence[Correction], release: Release) -> ShardState:
    """The state with these entries in place of its own."""
    groups = {each.group_id for each in found if each.entry_type == "group"}
    noted_groups = {each.group_id for each in found if each.entry_type == "noted"}
    producers = {each.producer_id for each in found if each.entry_type == "producer"}
    added = loaded(plain_entries([each for each in found if each.payload is not None]), release)
    was, more = state.offsets, added.offsets
    is_committed = was.offsets["producer_id"].is_null()
    offsets = OffsetState(
        pa.concat_tables(
            [
                _without(was.offsets.filter(is_committed), "group_id", groups),
                _without(was.offsets.filter(pc.invert(is_committed)), "producer_id", producers),
                more.offsets,
            ]
        ),
        was.removed,
        pa.concat_tables([_without(was.noted, "group_id", noted_groups), more.noted]),
        pa.concat_tables([_without(was.transactions, "producer_id", producers), more.transactions]),
    )
    return ShardState(
        offsets,
        {group_id: group for group_id, group in state.groups.items() if group_id not in groups} | added.groups,
        {group_id: at for group_id, at in state.removed_groups.items() if group_id not in groups},
    )


def versions(found: Sequence[Correction], was: ShardState, now: ShardState, place: Place) -> Iterator[Version]:
    for each in found:
        if each.entry_type == "group" and each.group_id is not None:
            start = before(was.groups.get(each.group_id), None)
            yield from changes(start, now.groups.get(each.group_id), None, place, Topics())


def _without(rows: pa.Table, column: str, owners: Collection[Any]) -> pa.Table:
    return rows.filter(pc.invert(_is_one(rows, column, owners)))


def _is_one(rows: pa.Table, column: str, owners: Collection[Any]) -> pa.ChunkedArray:
    """Whether each row belongs to one of these groups or producers."""
    values = rows[column].cast(pa.string()) if column == "group_id" else rows[column]
    return pc.is_in(values, pa.array(sorted(owners), values.type))


def _of_groups(carried: ShardState, reported: ShardState, moved: set[str]) -> Iterator[Correction]:
    """`moved`: groups whose committed offsets differ."""
    known = carried.groups.keys() | reported.groups.keys()
    others = {g for g in known if not _is_same(carried.groups.get(g), reported.groups.get(g))}
    offsets = reported.offsets.offsets
    committed = _by_owner(offsets.filter(offsets["producer_id"].is_null()), "group_id", moved | others)
    for group_id in sorted(moved | others):
        group = (reported if group_id in others else carried).groups.get(group_id)
        its_offsets = [fields[1:] for fields in committed.get(group_id, ())]
        is_gone = group is None and not its_offsets
        yield Correction("group", group_id, None) if is_gone else Correction(*group_row(group_id, group, its_offsets))


def _of_producers(carried: OffsetState, reported: OffsetState, moved: set[int]) -> Iterator[Correction]:
    """`moved`: producers whose pending offsets differ."""
    were, are = open_transactions(carried), open_transactions(reported)
    others = {producer for producer in were.keys() | are.keys() if were.get(producer) != are.get(producer)}
    pending = _by_owner(reported.offsets, "producer_id", moved | others)
    for producer in sorted(moved | others):
        if producer in are or producer in pending:
            yield Correction(*producer_row(producer, are.get(producer), pending.get(producer, ())))
        else:
            yield Correction("producer", None, orjson.dumps({"producer_id": producer}).decode())


def _of_noted_producers(carried: dict[str, set[int]], reported: dict[str, set[int]]) -> Iterator[Correction]:
    for group_id in sorted(carried.keys() | reported.keys()):
        if group_id not in reported:
            yield Correction("noted", group_id, None)
        elif carried.get(group_id) != reported[group_id]:
            yield Correction(*noted_row(group_id, reported[group_id]))


def _by_owner(offsets: pa.Table, column: str, owners: Collection[Any]) -> dict[Any, list[tuple[Any, ...]]]:
    """The offsets of these groups or producers, by group or producer."""
    offsets = offsets.filter(_is_one(offsets, column, owners))
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for owner, fields in zip(offsets[column].to_pylist(), offset_fields(offsets), strict=True):
        found.setdefault(owner, []).append(fields)
    return found


def _is_same(one: Group | None, other: Group | None) -> bool:
    """Whether the groups are equal in substance."""
    if one is None or other is None:
        return one is other
    if isinstance(one, ClassicGroup) and isinstance(other, ClassicGroup):
        # A classic group is one record of the log, or none, so an equal log offset is enough.
        return one.log_offset == other.log_offset or _facts(one) == _facts(other)
    return type(one) is type(other) and _facts(one) == _facts(other)


def _facts(group: Group) -> tuple[Any, ...]:
    """All fields of the group except the log offset and time of its record."""
    group = saved_and_loaded(group)
    if isinstance(group, ClassicGroup):
        return group.value, group.value_version
    members = {member_id: member[:-1] for member_id, member in group.members.items()}
    own = [getattr(group, name) for name in OWN_FIELDS[group.group_type]]
    if isinstance(group, ConsumerGroup):
        own.append({topic: owned for topic, owned in group.partition_epochs.epochs.items() if owned})
    epochs = (group.group_epoch, group.assignment_epoch)
    return group.state, *epochs, group.metadata_hash, members, group.target, *own
