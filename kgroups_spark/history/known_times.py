"""The newest log times in the ledger, without implausible ones (decoding/log_times.py)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.decoding.log_times import CLOCKS_DIFFER_MS
from kgroups_spark.history.stored import Stored, task_shards
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.offsets.records import milliseconds
from kgroups_spark.replay.history_parts import HistoryPart, PartReader
from kgroups_spark.replay.stored_history import StoredHistory
from kgroups_spark.replay.stored_tables import RECORDS_AT_ONCE
from kgroups_spark.tables.schemas import LOG_TABLES
from kgroups_spark.tasks.outputs import Fact
from kgroups_spark.times import to_epoch_ms

COLUMNS = ("audit_id", "offsets_partition", "log_offset", "log_timestamp")


def known_times(lake: Lake, audit: AuditRow | None, clock_ms: int) -> dict[int, int]:
    """The newest plausible log time (epoch ms) of each offsets partition in the ledger; partitions without one are
    absent.

    Earlier versions accepted every time, so for a partition with a time ahead of the clock, history is searched.
    """
    partitions = (audit.partitions or ()) if audit else ()
    known = {p.offsets_partition: to_epoch_ms(p.newest_log_timestamp) for p in partitions if p.newest_log_timestamp}
    latest = clock_ms + CLOCKS_DIFFER_MS
    ahead = {number for number, ms in known.items() if ms > latest}
    if not ahead or (len(ahead) > 1 and ahead == known.keys()):
        return known  # if all times are ahead, this machine's clock is wrong
    return {number: ms for number, ms in known.items() if number not in ahead} | newest_in_history(lake, ahead, latest)


def newest_in_history(lake: Lake, offsets_partitions: Collection[int], latest_ms: int) -> dict[int, int]:
    """The newest log time (epoch ms) up to `latest_ms` of each offsets partition; partitions without one are absent."""
    stored = Stored.of(lake)
    of_logs = {name: stored.table(name, name, COLUMNS) for name in LOG_TABLES}
    tasks = task_shards(dict.fromkeys(offsets_partitions, RECORDS_AT_ONCE), lake.runner.slots)
    task = NewestTask(StoredHistory(of_logs, tasks, replaced=lake.replaced), latest_ms)
    return dict(stored.facts(tasks, task))


@dataclass(frozen=True)
class NewestTask:
    """Finds the newest log time of a shard up to `latest_ms`."""

    stored: StoredHistory
    latest_ms: int

    def outputs(self, reader: PartReader, offsets_partition: int, parts: Sequence[HistoryPart]) -> Iterator[Fact]:
        """[offsets partition, ms] as a fact; nothing if there is none."""
        shard = self.stored.shard(reader, offsets_partition, parts)
        times = pa.chunked_array(
            [chunk for name in LOG_TABLES for chunk in milliseconds(shard.rows(name).column("log_timestamp")).chunks],
            pa.int64(),
        )
        newest = pc.max(times.filter(pc.less_equal(times, self.latest_ms))).as_py()
        if newest is not None:
            yield Fact([offsets_partition, newest])
