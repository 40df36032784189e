"""The rows of groups now or as of a moment, by offsets partition and group, from the tables and views of a lake."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from kgroups_spark.reading.gone_groups import log_ends
from kgroups_spark.reading.group_options import of_groups
from kgroups_spark.reading.reader import LakeReader, Rows, to_rows
from kgroups_spark.tables.schemas import GROUP
from kgroups_spark.times import to_datetime

Row = dict[str, Any]
Slot = tuple[str, int]
Place = tuple[int, str]  # offsets partition, group
ByPlace = defaultdict[Place, Rows]
# The wanted rows: one for each offset, each member, or each group.
What = Literal["offsets", "members", "state"]
SLOT = "offsets_partition, group_id, topic, partition"
OFFSET = f"{SLOT}, topic_id, committed_offset"
# Columns reported for a group's offset.
OFFSET_ROW = (
    "topic",
    "topic_id",
    "partition",
    "leader_epoch",
    "committed_offset",
    "metadata",
    "commit_timestamp",
    "log_offset",
    "log_end_offset",
    "lag",
    "owner_member_id",
    "owner_client_host",
    "owner_client_id",
    "expires_at",
    "pending_offsets",
)
NOT_OF_OFFSETS = ("owner_member_id", "owner_client_host", "owner_client_id", "pending_offsets")
KNOWN_FOR_CURRENT_STATE = ("log_end_offset", "lag", "expires_at")
SHARE_OFFSETS = """
SELECT group_id, topic, topic_id, partition, start_offset AS committed_offset,
  CASE WHEN start_offset IS NOT NULL THEN leader_epoch END AS leader_epoch,
  write_timestamp AS commit_timestamp, log_offset, {ends}
FROM {source}
WHERE init_state = 'initialized' AND {chosen}
"""


class OffsetSums(NamedTuple):
    """A group's number of committed offsets, the first moment at which one expires (None: none does), and its number of
    pending offsets."""

    offset_count: int = 0
    expires_at: datetime | None = None
    pending_count: int = 0


class GroupFacts:
    """Rows of the groups (None: all groups in these offsets partitions) as of a moment (None: the last audit), by
    partition and group."""

    def __init__(
        self,
        reader: LakeReader,
        groups: list[str] | None,
        as_of: datetime | None,
        offsets_partitions: list[int] | None = None,
        *,
        times_as_text: bool = False,
    ) -> None:
        self._reader = reader
        self._chosen = of_groups(groups)
        self._chosen_groups = self._chosen.sql
        if offsets_partitions:
            numbers = ", ".join(map(str, offsets_partitions))
            self._chosen = self._chosen._replace(sql=f"{self._chosen.sql} AND offsets_partition IN ({numbers})")
        self._as_of = as_of
        self._times_as_text = times_as_text
        self.as_of = as_of or to_datetime(reader.as_of_ms)

    @cached_property
    def groups(self) -> dict[Place, Row]:
        return {(row["offsets_partition"], row["group_id"]): row for row in self._state("groups")}

    @cached_property
    def members(self) -> ByPlace:
        return _by_place(self._state("group_members"))

    @cached_property
    def _assignors(self) -> ByPlace:
        """Members with a server-side assignor, with that column only."""
        members = self._state("group_members", "offsets_partition, group_id, member_id, server_assignor")
        return _by_place(row for row in members if row["server_assignor"] is not None)

    @cached_property
    def _committed(self) -> ByPlace:
        """Rows as OFFSET_ROW, without owners and pending offsets. Log ends and expiry are known only for the current
        state."""
        chosen, is_now = self._chosen.sql, self._as_of is None
        source = "lag" if is_now else "committed_offsets_as_of(:as_of)"
        offsets = f"(SELECT * FROM {source} WHERE {chosen}) AS offsets"
        if is_now:
            slots = " AND ".join(f"expiry.{name} = offsets.{name}" for name in SLOT.split(", "))
            offsets += f" LEFT JOIN (SELECT * FROM offset_expiry WHERE {chosen}) AS expiry ON {slots}"
        columns = ", ".join(_column_of(name, is_now) for name in (*GROUP, *OFFSET_ROW))
        found = self._reader.arrow(f"SELECT {columns} FROM {offsets}", self._parameters)
        return _by_place(to_rows(found, times_as_text=self._times_as_text))

    @cached_property
    def _log_ends(self) -> dict[Slot, int]:
        """As in the view lag, which has committed offsets alone."""
        if self._as_of is not None:
            return {}
        newest = "audit_id = (SELECT max(audit_id) FROM topic_offsets) AND log_end_offset IS NOT NULL"
        rows = self._reader.sql(f"SELECT topic, partition, log_end_offset FROM topic_offsets WHERE {newest}")
        return {_slot(row): row["log_end_offset"] for row in rows}

    @cached_property
    def _pending(self) -> ByPlace:
        return _by_place(self._state("pending_offsets", OFFSET))

    @cached_property
    def _owners(self) -> ByPlace:
        columns = f"{SLOT}, topic_id, member_id, client_id, client_host, log_offset, released_log_offset"
        if self._as_of is None:
            return _by_place(self._rows("partition_owners", "released_log_offset IS NULL", columns))
        rows = self._rows("partition_owners", columns=columns)
        return _by_place([row for row in rows if _is_owner(row, self._ends.get(row["offsets_partition"]))])

    @cached_property
    def _ends(self) -> dict[int, int]:
        return log_ends(self._reader, self._as_of) if self._as_of else {}

    @cached_property
    def _shared(self) -> dict[Place, set[Slot]]:
        """The partitions with a start offset, for share groups. The start offsets themselves are in another topic."""
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

    @cached_property
    def _share_known(self) -> str | None:
        """`known` of the moment for the history of __share_group_state; None: no audit has read it."""
        if self._as_of is None:
            return "complete" if self._reader.sql("SELECT 1 AS found FROM share_partitions LIMIT 1") else None
        query = "SELECT known FROM state_known_as_of(:as_of) WHERE log = '__share_group_state'"
        found = self._reader.sql(query, as_of=self._as_of)
        return found[0]["known"] if found else None

    @cached_property
    def _share_partitions(self) -> dict[str, Rows]:
        """The start offsets in the share coordinator's log, with the log ends that a live audit saw, by group."""
        is_now = self._as_of is None
        query = SHARE_OFFSETS.format(
            source="share_lag" if is_now else self._source("share_partitions"),
            ends="log_end_offset, lag" if is_now else "NULL AS log_end_offset, NULL AS lag",
            chosen=self._chosen_groups,
        )
        found: defaultdict[str, Rows] = defaultdict(list)
        for row in self._reader.sql(query, **self._parameters):
            found[row["group_id"]].append(row)
        return found

    @cached_property
    def _offset_counts(self) -> dict[Place, int]:
        return self._aggregate("committed_offsets", "count(*)")

    def places(self, what: What) -> set[Place]:
        """The places with a group, or with committed offsets without one."""
        return {*self.groups, *(self._committed if what == "offsets" else self._offset_counts)}

    @cached_property
    def _sums(self) -> dict[Place, OffsetSums]:
        committed = self._offset_counts
        pending = self._aggregate("pending_offsets", "count(*)")
        expires = {} if self._as_of else self._aggregate("offset_expiry", "min(expires_at)")
        return {
            place: OffsetSums(committed.get(place, 0), expires.get(place), pending.get(place, 0))
            for place in {*committed, *pending}
        }

    def _aggregate(self, table: str, aggregate: str) -> dict[Place, Any]:
        query = (
            f"SELECT offsets_partition, group_id, {aggregate} AS found FROM {self._source(table)} "
            f"WHERE {self._chosen.sql} GROUP BY offsets_partition, group_id"
        )
        return values_by_place(self._reader.arrow(query, self._parameters), "found")

    def _is_share(self, place: Place) -> bool:
        return self.groups.get(place, {}).get("group_type") == "share"

    def members_for(self, what: What, place: Place) -> Rows:
        """The members of the group: all columns for `members`, the assignor for `state`, none for `offsets`."""
        if what == "offsets":
            return []
        return (self.members if what == "members" else self._assignors).get(place, [])

    def sums(self, place: Place) -> OffsetSums:
        return self._sums.get(place, OffsetSums())

    def share_known(self, place: Place) -> str | None:
        """For a share group, `known` of the moment for the history of __share_group_state; None: no audit has read it,
        or it is another group."""
        return self._share_known if self._is_share(place) else None

    def offsets(self, place: Place) -> Rows:
        """A row for each partition with a committed or pending offset of the group, or assigned to a member, by topic
        and partition."""
        if self._is_share(place) and self._share_known is not None:
            stored = self._share_partitions.get(place[1], [])
            return [_share_row(slot, row) for slot, row in sorted((_slot(row), row) for row in stored)]
        rows = {_slot(row): row for row in self._committed.get(place, ())}
        for row in self._owners.get(place, ()):
            found = _row_at(rows, _slot(row))
            found["topic_id"] = found["topic_id"] or row["topic_id"]
            found.update({f"owner_{name}": row[name] for name in ("member_id", "client_host", "client_id")})
        for row in self._pending.get(place, ()):
            found = _row_at(rows, _slot(row))
            found["pending_offsets"] = sorted([*(found["pending_offsets"] or ()), row["committed_offset"]])
        for slot, row in rows.items():
            if row["committed_offset"] is None:
                row["log_end_offset"] = self._log_ends.get(slot)
        for slot in self._shared.get(place, ()):
            _row_at(rows, slot)
        return [rows[slot] for slot in sorted(rows)]

    def _state(self, name: str, columns: str = "*") -> Rows:
        return self._rows(self._source(name), columns=columns)

    def _source(self, name: str) -> str:
        """The table, or its function as of the moment."""
        return name if self._as_of is None else f"{name}_as_of(:as_of)"

    @property
    def _parameters(self) -> dict[str, Any]:
        return self._chosen.parameters | ({} if self._as_of is None else {"as_of": self._as_of})

    def _rows(self, source: str, where: str = "true", columns: str = "*") -> Rows:
        query = f"SELECT {columns} FROM {source} WHERE {self._chosen.sql} AND {where}"
        return self._reader.sql(query, **self._parameters)


def values_by_place(found: pa.Table, column: str) -> dict[Place, Any]:
    """The values of a column, from rows with offsets_partition and group_id."""
    places = zip(found["offsets_partition"].to_pylist(), found["group_id"].to_pylist(), strict=True)
    return dict(zip(places, found[column].to_pylist(), strict=True))


def _column_of(name: str, is_now: bool) -> str:
    """A column of an offset, in SQL; NULL if another query supplies it, or if it is unknown as of a moment."""
    if name in NOT_OF_OFFSETS or (not is_now and name in KNOWN_FOR_CURRENT_STATE):
        return f"NULL AS {name}"
    return f"expiry.{name}" if name == "expires_at" else f"offsets.{name}"


def _row_at(rows: dict[Slot, Row], slot: Slot) -> Row:
    """The row of the slot; a new one with nulls if it has no committed offset."""
    return rows.setdefault(slot, {**dict.fromkeys(OFFSET_ROW), "topic": slot[0], "partition": slot[1]})


def _share_row(slot: Slot, stored: Row) -> Row:
    return (
        dict.fromkeys(OFFSET_ROW) | {name: stored[name] for name in OFFSET_ROW if name in stored} | {"topic": slot[0]}
    )


def _is_owner(row: Row, end: int | None) -> bool:
    """Whether the ownership has begun, and not ended, before the log's end (None: the end of the read log)."""
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
    """The topic's name; if no record has it, a text with its id."""
    return name or f"topic id {topic_id}"
