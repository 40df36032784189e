"""Decodes and replays all segments below a folder, in one process, and prints the state in numbers.

Each offsets partition is replayed by ranges of slots, as a task replays a large one.

    python -m benchmarks.decode_and_replay FOLDER [--groups]

    records=5000133 keys=97671 offset_sum=12351743370

With `--groups` the groups and members are replayed, too; no other program here does that.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.cli.entry import importing

with importing():  # as `kgroups` does
    from kgroups_spark.coordinator.releases import NEWEST, Topics, release
    from kgroups_spark.messages.coordinator_records import GroupRecordDecoder
    from kgroups_spark.offsets.columns import FIRST, JoinedLog, ranges_of
    from kgroups_spark.offsets.replay import replay_offsets
    from kgroups_spark.offsets.state import OffsetState
    from kgroups_spark.replay.groups import ShardHistory
    from kgroups_spark.replay.range_decoder import RangeDecoder
    from kgroups_spark.replay.ranges import LogRange, ReadContext
    from kgroups_spark.replay.shard import Night, ShardReplay
    from kgroups_spark.replay.stages import no_cycle_collector
    from kgroups_spark.replay.state import LogState
    from kgroups_spark.replay.stored_history import COMMITS_AT_ONCE
    from kgroups_spark.sources.files import open_file
    from kgroups_spark.sources.segment_log import SegmentLog
    from kgroups_spark.sources.segments import PartitionCopy, find_partitions
    from kgroups_spark.tables.schemas import arrow_schema

LOG = ("offset_commits", "group_records", "transaction_markers", "quarantine")


def whole_log(copy: PartitionCopy) -> LogRange:
    """The whole log of an offsets partition as one range."""
    return LogRange(copy.partition, 0, 0, SegmentLog(copy).new_pieces(0, ()))


def main(arguments: list[str]) -> int:
    folder = next(a for a in arguments if not a.startswith("-"))
    decoder, context = GroupRecordDecoder(), ReadContext(0, NEWEST, open_file)
    records = keys = offset_sum = 0
    for copy in find_partitions([folder]):
        reading = RangeDecoder([whole_log(copy)], context, decoder)
        tables: dict[str, list[pa.Table]] = defaultdict(list)
        with no_cycle_collector():
            for name, rows in reading.outputs():
                tables[name].append(pa.table(rows) if isinstance(rows, pa.RecordBatch) else rows)
            offsets = committed(copy.partition, tables, with_groups="--groups" in arguments)
        records += reading.progress.records
        keys += len(offsets)
        offset_sum += pc.sum(offsets).as_py() or 0
    sys.stdout.write(f"records={records} keys={keys} offset_sum={offset_sum}\n")
    return 0


def committed(number: int, tables: Mapping[str, Sequence[pa.Table]], *, with_groups: bool) -> pa.ChunkedArray:
    """The committed offsets at the end of the log of offsets partition `number`."""
    lots, others = tables.get(LOG[0], ()), [_whole(name, tables.get(name, ())) for name in LOG[1:]]
    # A range's rows are together in each sorted lot, so they are not copied.
    sizes, read = {FIRST: sum(map(len, lots))}, lambda slots, names: (slots.of(lot).select(names) for lot in lots)
    ranges = ranges_of(sizes, read, COMMITS_AT_ONCE)[0]
    log = JoinedLog.over([number], {})
    history = ShardHistory.of(log, lambda slots: _whole(LOG[0], [slots.of(lot) for lot in lots]), *others)
    if with_groups:
        replay = ShardReplay(Night(0, NEWEST, None, Topics()), LogState(), history, ranges)
        for _ in replay.outputs():
            pass
        state = replay.state.offsets
    else:
        state = replay_offsets(OffsetState.empty(), history.offsets(), release(NEWEST), ranges).state
    is_committed = state.offsets.column("producer_id").is_null()
    return state.offsets.filter(is_committed).column("committed_offset")


def _whole(name: str, rows: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(rows).unify_dictionaries() if rows else arrow_schema(name).empty_table()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
