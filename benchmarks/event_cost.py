"""What events cost: CPU seconds of reading and replaying two nights with them and without, in turns, in one process.

    python -m benchmarks.event_cost [--records 500000] [--rounds 5] [--work DIR]

No Spark, no Delta: what both sides do besides (files, statistics, commits) makes the share of a whole audit smaller.
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from benchmarks.generate_log import Shape, generate_nights
from kgroups_spark.audit.decode_range import CLIMBS, REPLAY, RangeDecoder, ReadContext
from kgroups_spark.audit.offset_moves import CLIMBS as CLIMB_ROWS
from kgroups_spark.audit.outputs import plain_batches
from kgroups_spark.audit.ranges import LogRange
from kgroups_spark.audit.reduce_range import RangeReducer
from kgroups_spark.audit.replay import NoTopics, ReplayContext, replay_partitions
from kgroups_spark.audit.replay_rows import FILE, REPLAY_ROWS, STATE, replay_batch
from kgroups_spark.coordinator.releases import NEWEST
from kgroups_spark.messages.group_records import GroupRecordDecoder
from kgroups_spark.sources.files import open_file
from kgroups_spark.sources.partition_log import SegmentPiece

WITH, WITHOUT = "with events", "without"


class _Silent:
    """In the place of GroupEvents and OffsetMoves: nothing is told."""

    def __init__(self, *_: Any, **__: Any) -> None: ...
    def chunk(self, *_: Any, **__: Any) -> tuple[None, None]:
        return None, None

    def close(self) -> None: ...
    def take(self) -> list[Any]:
        return []


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.event_cost", description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=500_000, help="of each of two nights (default: 500,000)")
    parser.add_argument("--rounds", type=int, default=5, help="of both sides (default: 5)")
    parser.add_argument("--work", type=Path, help="where the log goes and stays (default: a temporary folder)")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        work = options.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = work / f"event-cost-{options.records}"
        if not folder.exists():
            generate_nights(folder, Shape(options.records, partitions=4), 2)
        _measure(folder, options.rounds)
    return 0


def _measure(folder: Path, rounds: int) -> None:
    seconds: dict[tuple[str, int], list[float]] = defaultdict(list)
    told: dict[tuple[str, int], int] = {}
    for _ in range(rounds + 1):  # the first one warms up
        for side in (WITH, WITHOUT):
            state: list[pa.RecordBatch] = []
            with ExitStack() as stack:
                if side == WITHOUT:
                    _switch_off(stack)
                for night in (1, 2):
                    start = time.process_time()
                    state, events = _audit(folder, night, state, climbs=side == WITH)
                    seconds[side, night].append(time.process_time() - start)
                    told[side, night] = events
    for night in (1, 2):
        pairs = list(zip(seconds[WITH, night][1:], seconds[WITHOUT, night][1:], strict=True))
        ratio = statistics.median(one / other for one, other in pairs)
        ours, other = (statistics.median(column) for column in zip(*pairs, strict=True))
        sys.stdout.write(
            f"night {night}: {ours:.2f} CPU s with {told[WITH, night]:,} events, {other:.2f} without: {ratio:.3f}\n"
        )


def _switch_off(stack: ExitStack) -> None:
    for name in ("kgroups_spark.audit.decode_range.OffsetMoves", "kgroups_spark.coordinator.shard.ShardEvents"):
        stack.enter_context(mock.patch(name, _Silent))
    init, tell = RangeReducer.__init__, "kgroups_spark.coordinator.shard.Shard.tell_events"
    stack.enter_context(mock.patch.object(RangeReducer, "__init__", lambda *a, **k: init(*a, **{**k, "pins": False})))
    stack.enter_context(mock.patch(tell, lambda *_: _Silent()))


def _audit(folder: Path, night: int, state: list[pa.RecordBatch], *, climbs: bool) -> tuple[list[pa.RecordBatch], int]:
    """The state after the night, and how many events it told."""
    context = ReadContext(night, NEWEST, open_file, climbs=climbs)
    files: dict[str, bytes] = {}
    batches: list[pa.RecordBatch] = []
    for place in sorted(
        (folder / str(night)).glob("__consumer_offsets-*"), key=lambda p: int(p.name.rpartition("-")[2])
    ):
        partition, paths = int(place.name.rpartition("-")[2]), sorted(place.glob("*.log"))
        batches += [rows for rows in state if rows.column("offsets_partition")[0].as_py() == partition]
        pieces = tuple(SegmentPiece(str(path), 0, path.stat().st_size) for path in paths)
        start = int(paths[0].stem)
        reading = RangeDecoder(
            LogRange(partition, 0, start, pieces, begins_log=night == 1), context, GroupRecordDecoder()
        )
        rows, moves = io.BytesIO(), io.BytesIO()
        with pa.ipc.new_file(rows, REPLAY_ROWS) as writer, pa.ipc.new_stream(moves, CLIMB_ROWS) as moves_writer:
            for name, output in reading.outputs():
                if name in (REPLAY, CLIMBS):
                    (writer if name == REPLAY else moves_writer).write_batch(output)
                else:
                    for _ in plain_batches(name, output):
                        pass
        files |= {f"{partition}": rows.getvalue(), f"{partition}.climbs": moves.getvalue()}
        batches.append(
            replay_batch(
                1,
                {
                    "offsets_partition": pa.array([partition], pa.int32()),
                    "kind": pa.array([FILE], pa.int8()),
                    "text": pa.array([f"{partition}"]),
                    "outcome": pa.array([f"{partition}.climbs" if climbs else None], pa.string()),
                },
            )
        )
    replay = ReplayContext(night, NEWEST, None, NoTopics(), lambda path: io.BytesIO(files[path]))
    saved, events = [], 0
    for name, output in replay_partitions(batches, replay):
        if name == "coordinator_state":
            saved += [_state(rows) for rows in plain_batches(name, output)]
        elif name == "group_events":
            events += output.num_rows
    return saved, events


def _state(rows: pa.RecordBatch) -> pa.RecordBatch:
    count = rows.num_rows
    return replay_batch(
        count,
        {
            "offsets_partition": rows.column("offsets_partition"),
            "kind": pa.array([STATE] * count, pa.int8()),
            "outcome": rows.column("entry_type"),
            "group_id": rows.column("group_id"),
            "text": rows.column("payload"),
        },
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
