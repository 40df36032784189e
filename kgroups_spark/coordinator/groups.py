"""The groups of one offsets partition, replayed record by record. Offsets are the other half of a coordinator shard.

    groups = Groups(release("4.3"), offsets_partition=17, held)
    groups.replay_group_record(...), .keep_group(...), .remove_simple_groups(...)   in log order
    groups.group_rows(), .member_rows()                                             the current tables

Offsets matter in two places. First, a value creates a simple group if there is none (T18, T29). In Java only a group
tombstone ends it, with or without offsets (T30). Scala joins groups and offsets at the end of its load, so a group
without metadata exists exactly as long as it has offsets. Second, the offsets of a group (`HeldOffsets`) help to
explain its removal.

It is pure: no Spark, no files, no clock. Times are milliseconds, None if a record has none. Where a real coordinator's
load would fail, ReplayFailure is raised after the changes that Kafka's classes had made by then, and the next record
may follow. Either way the state is always that of a load up to the last record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kgroups_spark.coordinator.classic_group import ClassicGroup, check_members, check_subscriptions
from kgroups_spark.coordinator.events import TYPE_OF_GROUP_RECORD, GroupEvents, HeldOffsets, RecordPlace
from kgroups_spark.coordinator.group_snapshots import GROUP_METADATA
from kgroups_spark.coordinator.releases import Release, ReplayFailure, Topics, unknown_version
from kgroups_spark.coordinator.rows import GroupRow, MemberRow
from kgroups_spark.coordinator.share_group import check_hash_as_tags
from kgroups_spark.coordinator.versions import Before, Group, Place, Version, before, changes, persisted_group

Value = dict[str, Any]
SHARE_GROUP_METADATA = 11


class Groups:
    """The groups of one partition, and version rows for `take_changes`."""

    def __init__(self, release: Release, offsets_partition: int, held: HeldOffsets) -> None:
        self.release = release
        self.offsets_partition = offsets_partition
        self.held = held
        self.groups: dict[str, Group] = {}
        self.topics = Topics()
        # Groups with the log offset of their removal. Kept only where events are reported.
        self.removed_groups: dict[str, int] = {}
        self.events: GroupEvents | None = None
        self._versions: list[Version] = []

    def replay_group_record(
        self,
        log_offset: int,
        log_timestamp: int | None,
        record_type: int,
        group_id: str,
        member_id: str | None,
        regular_expression: str | None,
        value: Value | None,
        value_version: int | None = None,
        batch_offset: int | None = None,
    ) -> None:
        """Replays a record of types 2 to 23; `value` None is a tombstone. Types unknown to the release do nothing.
        `value_version` (None: 0) matters only for GroupMetadata (T8). `batch_offset`: base offset of its batch, None:
        unknown. Raises ReplayFailure if the release's load fails at the record."""
        if record_type not in self.release.record_types:
            if record_type in self.release.unreplayable_types:
                raise ReplayFailure(f"Received an unknown record type {record_type}")
            if not self.release.skips_unknown_types:
                raise ReplayFailure(f"Unknown group metadata message version {record_type}")
            return
        if value is not None and self.release.fails_to_read(record_type, value_version or 0):
            raise ReplayFailure(unknown_version(record_type, value_version or 0))
        group = self.groups.get(group_id)
        place = RecordPlace(log_offset, log_timestamp, batch_offset)
        if self.events is not None:
            self.events.before(place, group_id, member_id, record_type)
        start = before(group, member_id)
        state = None if group is None else (group.group_type, group.state)
        state_since = None if group is None else group.state_since
        try:
            if record_type == GROUP_METADATA:
                self._replay_group_metadata(log_offset, group_id, value, value_version)
            else:
                self._apply(log_offset, record_type, group_id, member_id or regular_expression, value)
        finally:
            was_there, group = group is not None, self.groups.get(group_id)
            if group is not None:
                unchanged = state == (group.group_type, group.state)
                group.state_since = state_since if unchanged else log_timestamp
            is_changed = self._record(start, group, member_id, place)
            if self.events is not None:
                missing_type = None if was_there or value is not None else TYPE_OF_GROUP_RECORD.get(record_type)
                self.events.after(place, group_id, missing_type, is_changed=is_changed)
                if batch_offset is None and record_type == GROUP_METADATA and value is not None:
                    # Message formats 0 and 1 do not show batches; Scala's coordinator appends a snapshot alone.
                    self.events.close()

    def keep_group(self, log_offset: int, log_timestamp: int | None, group_id: str) -> None:
        """Creates a simple group at an offset value, if the group does not exist."""
        if group_id in self.groups:
            return
        group, place = ClassicGroup(self.release, group_id), RecordPlace(log_offset, log_timestamp)
        group.state_since = log_timestamp
        if self.events is not None:
            self.events.created(place, group)
        self.groups[group_id] = group
        self._record(before(None, None), group, None, place)

    def remove_simple_groups(self, group_ids: Iterable[str], place: RecordPlace, *, by_marker: bool = False) -> None:
        """Scala: removes those of the groups that have neither metadata nor offsets."""
        if not self.release.simple_groups_follow_offsets:
            return
        for group_id in group_ids:
            group = self.groups.get(group_id)
            if isinstance(group, ClassicGroup) and group.value is None and not self.has_offsets(group_id):
                if self.events is not None and by_marker:
                    self.events.vanished(place, group)
                elif self.events is not None:
                    self.events.before(place, group_id, None, None)
                del self.groups[group_id]
                is_changed = self._record(before(group, None), None, None, place)
                if self.events is not None and not by_marker:
                    self.events.after(place, group_id, None, is_changed=is_changed)

    def has_offsets(self, group_id: str) -> bool:
        return any(self.held.held(group_id))

    def take_changes(self) -> list[Version]:
        """Version rows since the last call, in log order, with the topic names known at their record."""
        versions, self._versions = self._versions, []
        return versions

    def group_rows(self) -> Iterator[GroupRow]:
        """Rows of `groups`, by name, without `is_misplaced`."""
        return (group.row(self.offsets_partition) for _, group in sorted(self.groups.items()))

    def member_rows(self, *, on_demand: bool = True) -> Iterator[MemberRow]:
        """Rows of `group_members`, by group and member. `on_demand=False`: without the groups of `groups_on_demand`."""
        for _, group in sorted(self.groups.items()):
            if not on_demand and isinstance(group, ClassicGroup) and group.members_on_demand is not None:
                continue
            for member_id in sorted(group.members):
                yield group.member_row(self.offsets_partition, member_id, self.topics)

    def groups_on_demand(self) -> Iterator[ClassicGroup]:
        """Groups with members that are decoded on demand, by name."""
        for _, group in sorted(self.groups.items()):
            if isinstance(group, ClassicGroup) and group.members_on_demand is not None:
                yield group

    def _apply(self, log_offset: int, record_type: int, group_id: str, name: str | None, value: Value | None) -> None:
        if record_type == SHARE_GROUP_METADATA and value is not None and not self.release.has_metadata_hash:
            check_hash_as_tags(value.get("metadataHash"))
        before_record = self.groups.get(group_id)
        group = persisted_group(self.groups, self.release, record_type, group_id, is_value=value is not None)
        if group is None:
            return
        if group is not before_record:
            group.log_offset = log_offset
        if group.replay(log_offset, record_type, name, value):
            del self.groups[group_id]
        group.log_offset = log_offset

    def _replay_group_metadata(
        self, log_offset: int, group_id: str, value: Value | None, value_version: int | None
    ) -> None:
        if value is None:
            self.groups.pop(group_id, None)
            if self.release.simple_groups_follow_offsets and self.has_offsets(group_id):
                self.groups[group_id] = ClassicGroup(self.release, group_id)
            return
        group = ClassicGroup(self.release, group_id, value, value_version or 0)
        check_members(group)
        if self.release.damaged_subscription_fails and not self.release.replaces_group_before_parsing:
            check_subscriptions(value)
        group.log_offset = log_offset
        self.groups[group_id] = group
        if self.release.damaged_subscription_fails and self.release.replaces_group_before_parsing:
            check_subscriptions(value)

    def _record(self, start: Before, group: Group | None, member_id: str | None, place: RecordPlace) -> bool:
        """Adds versions of the group and members that differ from `start`; returns whether any do."""
        at = Place(self.offsets_partition, place.log_offset, place.log_timestamp)
        versions = changes(start, group, member_id, at, self.topics)
        self._versions += versions
        return bool(versions)
