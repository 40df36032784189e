"""Group records, and the offsets that matter to groups, replayed through the coordinator's groups in log order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter

from kgroups_spark.coordinator.acts import RecordPlace
from kgroups_spark.coordinator.group_events import GroupEvents
from kgroups_spark.coordinator.groups import Groups
from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.replay.group_times import GroupTimes
from kgroups_spark.replay.held_offsets import HeldByColumns
from kgroups_spark.replay.offset_steps import OffsetStep, TombstoneStep, ValueStep
from kgroups_spark.replay.shard_history import PlacedRecord


@dataclass(eq=False)
class GroupReplay:
    """A replay into groups that were loaded from their saved state. `failures`: records at which a coordinator's load
    would have failed, with the reason."""

    groups: Groups
    events: GroupEvents
    held: HeldByColumns
    times: GroupTimes
    failures: list[tuple[PlacedRecord, str]] = field(default_factory=list)

    def run(self, records: Iterable[PlacedRecord], steps: Iterable[OffsetStep]) -> Iterator[None]:
        """Replays both in log order; yields after each of them. A record that fails goes to `failures`."""
        for step in heapq.merge(records, steps, key=itemgetter(0)):
            self.held.at(step.log_offset)
            if isinstance(step, PlacedRecord):
                self._record(step)
            elif isinstance(step, ValueStep):
                self.groups.keep_group(*step)
                self._changed(step.group_id, step.log_offset)
            elif isinstance(step, TombstoneStep):
                self._tombstone(step)
            else:
                place = RecordPlace(step.log_offset, step.log_timestamp)
                self.groups.remove_simple_groups(step.group_ids, place, by_marker=True)
                for group_id in step.group_ids:
                    self._changed(group_id, step.log_offset)
            yield
        self.events.close()

    def _record(self, placed: PlacedRecord) -> None:
        record = placed.record
        names = (record.group_id, record.member_id, record.regular_expression)
        value = (record.value, record.value_version, placed.batch_offset)
        try:
            self.groups.replay_group_record(placed.log_offset, placed.log_timestamp, record.record_type, *names, *value)
        except ReplayFailure as failure:
            self.failures.append((placed, str(failure)))
        self._changed(record.group_id, placed.log_offset)

    def _tombstone(self, step: TombstoneStep) -> None:
        place = RecordPlace(step.log_offset, step.log_timestamp, step.batch_offset)
        self.events.tombstone(place, step.removed)
        if step.takes_last:
            self.groups.remove_simple_groups([step.group_id], place)
            self._changed(step.group_id, step.log_offset)

    def _changed(self, group_id: str, log_offset: int) -> None:
        self.times.changed(group_id, log_offset, self.groups.groups.get(group_id))
