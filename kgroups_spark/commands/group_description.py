"""What a group looks like now or as of a moment: its state, members and offsets, from the tables and views of a lake.

A group may stand in two partitions of __consumer_offsets: each is a description of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from kgroups_spark.commands.gone_groups import Removal, last_removal, log_ends
from kgroups_spark.commands.group_options import of_groups, require_known
from kgroups_spark.commands.reading import LakeReader, Rows
from kgroups_spark.times import to_datetime

Row = dict[str, Any]
Slot = tuple[str, int]
Place = tuple[int, str]  # offsets partition, group
ByPlace = defaultdict[Place, Rows]
DEAD = "Dead"


@dataclass
class Description:
    """`group`: its row of `groups`; None: it does not exist. `as_of`: when offsets and members were so."""

    group_id: str
    offsets_partition: int | None
    as_of: datetime
    group: Row | None
    members: Rows
    offsets: Rows = field(default_factory=list)
    removal: Removal | None = None

    @property
    def state(self) -> str:
        """Kafka says Dead of a group that does not exist."""
        return DEAD if self.group is None else str(self.group["state"])

    @property
    def group_type(self) -> str | None:
        return None if self.group is None else self.group["group_type"]


def describe_groups(reader: LakeReader, groups: list[str] | None, as_of: datetime | None) -> list[Description]:
    """The groups (None: all that exist) now or as of a moment, by name and partition, and those that are gone as they
    last were. Raises KgroupsError for a name that no record has."""
    facts = _Facts(reader, groups, as_of)
    found = [facts.description(*key) for key in facts.places()]
    gone = sorted(set(groups or ()) - {description.group_id for description in found})
    require_known(reader, gone)
    return sorted(
        [*found, *(_gone(reader, group_id, as_of) for group_id in gone)],
        key=lambda description: (description.group_id, description.offsets_partition or 0),
    )


def _gone(reader: LakeReader, group_id: str, as_of: datetime | None) -> Description:
    """A group that has neither a row of its own nor offsets."""
    removal = last_removal(reader, group_id, as_of)
    now = as_of or to_datetime(reader.as_of_ms)
    if removal is None:
        return Description(group_id, None, now, None, [])
    last = Description(group_id, removal.offsets_partition, removal.offsets_as_of or now, None, [], removal=removal)
    if removal.members_as_of is not None:
        members = _Facts(reader, [group_id], removal.members_as_of)
        last.members = members.members[removal.offsets_partition, group_id]
    if removal.offsets_as_of is not None:
        offsets = _Facts(reader, [group_id], removal.offsets_as_of)
        last.offsets = offsets.offsets(removal.offsets_partition, group_id)
    return last


class _Facts:
    """Rows of the groups (None: of all) as of a moment (None: as of the last audit), by partition and group."""

    def __init__(self, reader: LakeReader, groups: list[str] | None, as_of: datetime | None) -> None:
        self._reader = reader
        self._chosen = of_groups(groups)
        self._as_of = as_of
        self.as_of = as_of or to_datetime(reader.as_of_ms)

    @cached_property
    def groups(self) -> dict[Place, Row]:
        return {(row["offsets_partition"], row["group_id"]): row for row in self._state("groups")}

    @cached_property
    def members(self) -> ByPlace:
        return _by_place(self._state("group_members"))

    @cached_property
    def _committed(self) -> ByPlace:
        """With the ends of their logs where a live audit saw them; as of a moment nobody did."""
        return _by_place(self._rows("lag") if self._as_of is None else self._state("committed_offsets"))

    @cached_property
    def _pending(self) -> ByPlace:
        return _by_place(self._state("pending_offsets"))

    @cached_property
    def _expiry(self) -> ByPlace:
        return _by_place([] if self._as_of else self._rows("offset_expiry"))

    @cached_property
    def _owners(self) -> ByPlace:
        if self._as_of is None:
            return _by_place(self._rows("partition_owners", "released_log_offset IS NULL"))
        rows = self._rows("partition_owners")
        return _by_place([row for row in rows if _is_owner(row, self._ends.get(row["offsets_partition"]))])

    @cached_property
    def _ends(self) -> dict[int, int]:
        return log_ends(self._reader, self._as_of) if self._as_of else {}

    @cached_property
    def _shared(self) -> dict[Place, set[Slot]]:
        """Of share groups, whose start offsets stand in another topic: the partitions that have one."""
        if not any(row["group_type"] == "share" for row in self.groups.values()):
            return {}
        newest: dict[Place, Row] = {}
        rows = self._rows("share_group_state_partition_metadata_records")
        for row in sorted(rows, key=lambda row: int(row["log_offset"])):
            if row["log_offset"] < self._ends.get(row["offsets_partition"], row["log_offset"] + 1):
                newest[row["offsets_partition"], row["group_id"]] = row
        return {
            key: {
                (_topic(topic["topic_name"], topic["topic_id"]), partition)
                for topic in row["initialized_topics"] or ()
                for partition in topic["partitions"] or ()
            }
            for key, row in newest.items()
        }

    def places(self) -> list[Place]:
        """Where there is a group, or offsets without one."""
        return sorted({*self.groups, *self._committed})

    def description(self, offsets_partition: int, group_id: str) -> Description:
        key = offsets_partition, group_id
        return Description(
            group_id,
            offsets_partition,
            self.as_of,
            self.groups.get(key),
            self.members[key],
            self.offsets(*key),
        )

    def offsets(self, offsets_partition: int, group_id: str) -> Rows:
        """A row for each partition that the group has an offset of, committed or pending, or that is assigned to a
        member, by topic and partition."""
        key = offsets_partition, group_id
        pending: defaultdict[Slot, list[int]] = defaultdict(list)
        for row in self._pending[key]:
            pending[_slot(row)].append(row["committed_offset"])
        committed = {_slot(row): row for row in self._committed[key]}
        expiry = {_slot(row): row for row in self._expiry[key]}
        owners = {_slot(row): row for row in self._owners[key]}
        shared: dict[Slot, Row] = {slot: {} for slot in self._shared.get(key, ())}
        return [
            _offset_row(
                slot,
                committed.get(slot, {}),
                owners.get(slot, {}),
                expiry.get(slot, {}),
                sorted(pending[slot]) if slot in pending else None,
            )
            for slot in sorted({*committed, *owners, *pending, *shared})
        ]

    def _state(self, name: str) -> Rows:
        return self._rows(name) if self._as_of is None else self._rows(f"{name}_as_of(:as_of)", as_of=self._as_of)

    def _rows(self, source: str, where: str = "true", **parameters: Any) -> Rows:
        query = f"SELECT * FROM {source} WHERE {self._chosen.sql} AND {where}"
        return self._reader.sql(query, **self._chosen.parameters, **parameters)


def _offset_row(slot: Slot, committed: Row, owner: Row, expiry: Row, pending: list[int] | None) -> Row:
    return {
        "topic": slot[0],
        "topic_id": committed.get("topic_id") or owner.get("topic_id"),
        "partition": slot[1],
        "leader_epoch": committed.get("leader_epoch"),
        "committed_offset": committed.get("committed_offset"),
        "metadata": committed.get("metadata"),
        "commit_timestamp": committed.get("commit_timestamp"),
        "log_offset": committed.get("log_offset"),
        "log_end_offset": committed.get("log_end_offset"),
        "lag": committed.get("lag"),
        "owner_member_id": owner.get("member_id"),
        "owner_client_host": owner.get("client_host"),
        "owner_client_id": owner.get("client_id"),
        "expires_at": expiry.get("expires_at"),
        "pending_offsets": pending,
    }


def _is_owner(row: Row, end: int | None) -> bool:
    """Whether the span has begun, and not ended, before the log's end (None: as far as it was read)."""
    released = row["released_log_offset"]
    if end is None:
        return released is None
    return row["log_offset"] < end and (released is None or released >= end)


def _by_place(rows: Iterable[Row]) -> ByPlace:
    found: ByPlace = defaultdict(list)
    for row in rows:
        found[row["offsets_partition"], row["group_id"]].append(row)
    return found


def _slot(row: Row) -> Slot:
    return _topic(row["topic"], row.get("topic_id")), row["partition"]


def _topic(name: str | None, topic_id: str | None) -> str:
    """A topic whose name no record tells goes by its id."""
    return name or f"topic id {topic_id}"
