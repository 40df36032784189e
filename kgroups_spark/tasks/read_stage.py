"""Stage 1 as Spark runs it: tasks read ranges of the log, and return rows of history and the progress of each range.

A task finds its ranges by its number: they are small and part of the function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from kgroups_spark.decoding.log_times import LogTimes
from kgroups_spark.decoding.partition_reading import readings
from kgroups_spark.decoding.range_decoder import RangeDecoder
from kgroups_spark.decoding.range_progress import RangeProgress, ReadContext
from kgroups_spark.decoding.ranges import LogRange
from kgroups_spark.errors import NotReadable
from kgroups_spark.runner import numbers, numbers_in
from kgroups_spark.sources.partition_log import LeaderLost
from kgroups_spark.tasks.cycle_collector import no_cycle_collector
from kgroups_spark.tasks.outputs import Fact, ForReplay, ShardBegins, ShardLost, TaskOutput
from kgroups_spark.tasks.sinks import Given, Sink

Ranges = Sequence[LogRange]
# Rows that the replay completes: markers get the transaction that they ended, and counts of one hour in several ranges
# are added up.
PASSED_ON = ("transaction_markers", "group_traffic")


def read_ranges(sink: Sink, tasks: Sequence[Ranges], context: ReadContext) -> list[RangeProgress]:
    """The progress of each range, and of the partitions that were given up. Stage 1 runs in one action, and only once,
    because the cleaner may run between two reads of a log, on a broker and in its folder."""
    if not tasks:
        return []
    made = sink.run(Given(numbers(len(tasks))), partial(read_tasks, list(map(list, tasks)), context))
    return list(map(progress_from_json, made.facts))


def read_tasks(
    tasks: Sequence[Ranges], context: ReadContext, batches: Iterable[pa.RecordBatch]
) -> Iterator[TaskOutput]:
    """The outputs of a task: rows of history, rows that the replay completes (PASSED_ON), rows that are read again, and
    the progress of each range as a fact."""
    for number in numbers_in(batches):
        with no_cycle_collector(), context.connected() as connected:
            for reading in readings(tasks[number], connected):
                yield ShardBegins(str(reading.offsets_partition))
                try:
                    for decoder in reading.decoders():
                        yield from _read_range(decoder)
                except NotReadable as err:
                    if isinstance(err, LeaderLost):
                        connected.live.lose_patience()
                    yield ShardLost()
                    yield Fact(progress_to_json(reading.given_up(err)))


def _read_range(reading: RangeDecoder) -> Iterator[TaskOutput]:
    is_again = reading.progress.is_reread
    for name, rows in reading.outputs():
        yield ForReplay(name, rows, is_again) if is_again or name in PASSED_ON else (name, rows)
    yield Fact(progress_to_json(reading.progress))


def progress_to_json(progress: RangeProgress) -> dict[str, Any]:
    """The progress as a JSON value."""
    counts = [(record_type, version, count) for (record_type, version), count in progress.record_counts.items()]
    return {**vars(progress), "record_counts": counts, "log_times": vars(progress.log_times)}


def progress_from_json(payload: dict[str, Any]) -> RangeProgress:
    """The inverse of progress_to_json, after JSON."""
    counts = Counter({(record_type, version): count for record_type, version, count in payload["record_counts"]})
    return RangeProgress(
        **{
            **payload,
            "record_counts": counts,
            "log_times": LogTimes(**payload["log_times"]),
            "quarantined": Counter(payload["quarantined"]),
            "topics": [tuple(row) for row in payload["topics"]],
            "damage": [tuple(place) for place in payload["damage"]],
        }
    )
