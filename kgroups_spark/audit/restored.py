"""The state, at the cut, of partitions with a log that was cut back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.audit.saved_state import SavedState
from kgroups_spark.audit.work import AuditWork
from kgroups_spark.counts import counted
from kgroups_spark.history.shard_states import history_below, state_task
from kgroups_spark.history.stored import Stored
from kgroups_spark.lake.last_finished import REBUILD_APP_ID
from kgroups_spark.replay.history_parts import PartReader
from kgroups_spark.replay.stored_tables import StoredTable
from kgroups_spark.tables.conditions import Condition, expression_of
from kgroups_spark.tables.internal import NIGHT
from kgroups_spark.tables.rows import constant, with_columns
from kgroups_spark.tables.schemas import CHECKPOINTS, arrow_schema
from kgroups_spark.tasks.outputs import TaskOutput
from kgroups_spark.tasks.replay_stage import ShardTask
from kgroups_spark.tasks.sinks import sink_of


@dataclass(frozen=True)
class RestoreTask:
    """The state of a shard: replayed from history (`state`) if its log was cut back, otherwise from `saved`."""

    state: ShardTask
    cut: frozenset[int]
    saved: StoredTable
    is_saved: pc.Expression

    def outputs(self, reader: PartReader, offsets_partition: int) -> Iterator[TaskOutput]:
        if offsets_partition in self.cut:
            yield from self.state.outputs(reader, offsets_partition)
            return
        history = self.state.stored
        assert history is not None
        rows = reader.rows(self.saved, offsets_partition).filter(self.is_saved)
        rows = rows.cast(arrow_schema(CHECKPOINTS))  # texts, as those of the others
        yield CHECKPOINTS, with_columns(rows, audit_id=constant(self.state.audit_id, len(rows), pa.int64()))


def restored_state(work: AuditWork) -> SavedState:
    """The saved state, with these partitions replayed from history before the cut; the others stay.

    The old state stays until the audit has finished, so that a killed audit can be repeated.
    """
    cuts = {number: cut.from_offset for number, cut in work.plan.replaced.items()}
    work.progress(f"replaying the log before the cut of {counted(len(cuts), 'partition')}")
    lake, release_version = work.lake, work.settings.release_version
    stored = Stored(lake)
    history, tasks = history_below(lake, stored, cuts, release_version, work.shards)
    is_saved = [Condition("reason", "==", NIGHT), Condition("audit_id", "==", work.state.audit_id)]
    saved = stored.table("saved", CHECKPOINTS, arrow_schema(CHECKPOINTS).names, conditions=is_saved)
    state = state_task(history, release_version, work.audit_id)
    writer = replace(work.writer, app_id=REBUILD_APP_ID)
    task = RestoreTask(state, frozenset(cuts), saved, expression_of(is_saved))
    with sink_of(writer) as sink:
        stored.run(sink, tasks, task)
        sink.replace(writer, CHECKPOINTS, keep_audit=work.state.kept_audit_id)
    return replace(work.state, audit_id=work.audit_id)
