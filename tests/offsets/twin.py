"""The slow and obvious twin of the package offsets: record by record, objects in dictionaries (tests/twin/shard.py)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kgroups_spark.coordinator.events import RecordPlace, Rules, Slot
from kgroups_spark.coordinator.groups import Groups
from kgroups_spark.coordinator.releases import Release, ReplayFailure, expiry_rules
from kgroups_spark.tables.rows import table_batch
from tests.coordinator.no_topics import NoTopics
from tests.coordinator.replay_row import ReplayRow, replay
from tests.twin.offset_metadata import OffsetCommit
from tests.twin.shard import Shard
from tests.twin.shard_events import ShardEvents
from tests.twin.shard_rows import CommittedRow, OpenTransactionRow, PendingRow

Row = dict[str, Any]


class Listener(ShardEvents):
    """Also keeps the facts of removals."""

    def __init__(self, shard: Shard, rules: Rules) -> None:
        super().__init__(shard, rules)
        self.facts: dict[int, tuple[bool, bool, bool]] = {}

    def removed_by(self, slot: Slot, commit: OffsetCommit | None, *, is_pending: bool) -> None:
        super().removed_by(slot, commit, is_pending=is_pending)
        if commit is not None:
            removal = self._removals[-1]
            self.facts[removal.place.log_offset] = (is_pending, removal.is_topic_left, removal.is_group_left)


class Twin:
    """A shard that has replayed the rows, and what it said meanwhile."""

    def __init__(self, rows: Sequence[ReplayRow], release: Release) -> None:
        self.shard = shard = Shard(release, 0, recording=True)
        shard.topics = NoTopics()
        self.listener = Listener(shard, Rules(expiry_rules(release.name), ((0, 1000),)))
        shard.events = shard.offsets.observer = self.listener
        self.failures: list[tuple[int, str]] = []
        self.ended: list[tuple[Any, ...]] = []
        # (group, since, until) without members, of groups that have some at times.
        self.quiet: list[list[Any]] = []
        # By log offset the groups with committed, and those with pending offsets after it.
        self.holding: dict[int, tuple[set[str], set[str]]] = {}
        for row in rows:
            self._replay(row)
            self.holding[row.log_offset] = (set(shard.offsets.committed), set(shard.offsets.pending_count))
            if row.kind == "group_record":
                self._look_at(row)
        self.listener.close()
        self.events = [event for event in self.listener.take() if event.event.startswith(("offset_", "topic_"))]

    def _replay(self, row: ReplayRow) -> None:
        if row.kind == "marker":
            ended = self.shard.end_transaction(row.log_offset, row.log_timestamp, row.producer_id, row.outcome)
            named = row.outcome is not None
            self.ended.append((ended[0], ended[1] if named else None, ended[2] if named else None))
            return
        try:
            replay(self.shard, row)
        except ReplayFailure as failure:
            if row.kind == "offset_commit":
                self.failures.append((row.log_offset, str(failure)))

    def _look_at(self, row: ReplayRow) -> None:
        for span in self.quiet:
            if span[0] == row.group_id and span[2] is None:
                span[2] = row.log_offset
        if self.listener.type_of_emptied(row.group_id or "") is not None:
            self.quiet.append([row.group_id, row.log_offset, None])

    def rows(self, name: str) -> list[Row]:
        """Rows of a current table."""
        source, kind = {
            "committed_offsets": (self.shard.committed_rows, CommittedRow),
            "pending_offsets": (self.shard.pending_rows, PendingRow),
            "open_transactions": (self.shard.open_transaction_rows, OpenTransactionRow),
        }[name]
        return table_batch(name, kind._fields, list(source()), audit_id=1).to_pylist()


class Held:
    """Answers from the columns the one question that groups ask of offsets: whether a group has any."""

    def __init__(self, held: set[str]) -> None:
        self.held = held

    def has_committed(self, group_id: str) -> bool:
        return group_id in self.held

    def has_pending(self, group_id: str) -> bool:
        return False


def groups_alone(
    rows: Sequence[ReplayRow], release: Release, values: Sequence[Row], holdings: Sequence[Row]
) -> tuple[list[Any], list[Any]]:
    """Group rows and versions of a shard that sees group records, and of offsets nothing but values and holdings."""
    offsets = Held(set())
    groups = Groups(release, 0, offsets, recording=True)
    groups.topics = NoTopics()
    first = {row["log_offset"]: row["group_id"] for row in values}
    changes: dict[int, list[Row]] = {}
    for change in holdings:
        changes.setdefault(change["since"], []).append(change)
    for row in rows:
        for change in changes.get(row.log_offset, ()):
            _hold(groups, offsets, change, row)
        if row.log_offset in first and not release.simple_groups_follow_offsets:
            groups.keep_group(row.log_offset, row.log_timestamp, first[row.log_offset])
        if row.kind == "group_record":
            with suppress(ReplayFailure):
                names = (row.group_id or "", row.member_id, row.regular_expression)
                place = (row.log_offset, row.log_timestamp, row.record_type or 0)
                groups.replay_group_record(*place, *names, row.value, row.value_version)
    return list(groups.group_rows()), groups.take_changes()


def _hold(groups: Groups, offsets: Held, change: Row, row: ReplayRow) -> None:
    group_id, was = change["group_id"], change["group_id"] in offsets.held
    has = change["has_committed"] or change["has_pending"]
    (offsets.held.add if has else offsets.held.discard)(group_id)
    if groups.release.simple_groups_follow_offsets and has != was:
        if has:
            groups.keep_group(row.log_offset, row.log_timestamp, group_id)
        else:
            groups.remove_simple_groups([group_id], RecordPlace(row.log_offset, row.log_timestamp))
