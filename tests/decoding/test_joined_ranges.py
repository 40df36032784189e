"""Small ranges of several offsets partitions, decoded together, give the rows and facts that each gives alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from kgroups_spark.errors import NotReadable
from kgroups_spark.messages.coordinator_records import GroupRecordDecoder
from kgroups_spark.replay import range_decoder
from kgroups_spark.replay.range_decoder import RangeDecoder, readings
from kgroups_spark.replay.ranges import LogRange, RangeProgress, ReadContext
from tests.chosen import Chosen
from tests.logs.damaged_logs import damaged
from tests.logs.dense_logs import dense_log
from tests.logs.log_files import Files
from tests.nights.decoded import MemoryFile, whole_ranges

Rows = Counter[str]
# Facts that are collected from all ranges and belong to no partition.
OF_ALL = ("topics",)


def decoded(files: Files, ranges: Sequence[LogRange], release: str) -> tuple[Rows, list[RangeProgress]]:
    """The rows as text; offset_commits of one part of the log are in order."""

    def opened(path: str) -> Any:
        if path not in files:
            raise NotReadable(path)
        return MemoryFile(files[path])

    decoder, found = RangeDecoder(ranges, ReadContext(1, release, opened), GroupRecordDecoder()), Rows()
    for name, rows in decoder.outputs():
        plain = (pa.table(rows) if isinstance(rows, pa.RecordBatch) else rows).to_pylist()
        if name == "offset_commits":
            order = [
                [row[n] for n in ("offsets_partition", "group_id", "topic", "partition", "log_offset")] for row in plain
            ]
            assert order == sorted(order)
        found.update(f"{name} {row}" for row in plain)
    return found, decoder.progresses


def facts(progress: RangeProgress) -> dict[str, Any]:
    return {name: value for name, value in vars(progress).items() if name not in OF_ALL}


def log_of(seeds: Sequence[int], rng: random.Random) -> Files:
    """Dense logs as partitions 3, 7, ... of one log, some of them damaged."""
    files: Files = {}
    for number, seed in enumerate(seeds):
        one = dense_log(seed, 12)
        one = damaged(one, rng) if rng.random() < 0.3 else one
        files |= {f"__consumer_offsets-{3 + 4 * number}/{path.rsplit('/', 1)[1]}": data for path, data in one.items()}
    return files


@pytest.mark.parametrize("together", [1 << 22, 1])
def test_ranges_decoded_together_equal_each_alone(
    together: int, chosen: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together, or as soon as one has been read."""
    monkeypatch.setattr(range_decoder, "JOINED_BYTES", together)
    for _ in range(40 if chosen.every else 4):
        seeds = [chosen.random.randrange(1 << 32) for _ in range(chosen.random.randint(2, 4))]
        files, release = log_of(seeds, chosen.random), chosen.one(("4.4", "4.0.0", "3.9", "2.8"))
        ranges = whole_ranges(files)
        rows, progresses = decoded(files, ranges, release)
        alone = [decoded(files, [log_range], release) for log_range in ranges]
        assert rows == sum((each for each, _ in alone), Rows()), seeds
        assert list(map(facts, progresses)) == [facts(of) for _, (of,) in alone], seeds
        names = sorted(name for _, (of,) in alone for name in of.topics)
        earliest = {topic_id: (topic, *rest) for topic_id, topic, *rest in progresses[0].topics}
        assert earliest.keys() == {name[0] for name in names}


def test_a_partition_that_cannot_be_read_leaves_the_others(chosen: Chosen) -> None:
    files = log_of([chosen.random.randrange(1 << 32) for _ in range(3)], chosen.random)
    ranges = whole_ranges(files)
    left = {path: data for path, data in files.items() if not path.startswith("__consumer_offsets-7/")}
    rows, progresses = decoded(left, ranges, "4.3")
    others = [each for each in ranges if each.offsets_partition != 7]
    assert rows == sum((decoded(left, [each], "4.3")[0] for each in others), Rows())
    assert [each.given_up is None for each in progresses] == [True, False, True]
    assert progresses[1].records == 0


def test_small_ranges_of_files_are_read_by_one_decoder() -> None:
    files = {f"__consumer_offsets-{number}/{0:020}.log": bytes(number) for number in range(4)}
    small = whole_ranges(files)
    large = [LogRange(9, number, 0, small[3].pieces) for number in range(2)]
    found = list(readings([*large, *small], ReadContext(1, "4.3", lambda path: MemoryFile(files[path]))))
    assert [[each.offsets_partition for each in reading.ranges] for reading in found] == [[0], [9, 9]]
    of_each = [[len(decoder.progresses) for decoder in reading.decoders()] for reading in found]
    assert of_each == [[4], [1, 1]]
