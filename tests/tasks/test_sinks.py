"""The outputs of tasks by both sinks: which rows count if a shard is lost in the middle of its outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from kgroups_spark.history.stored import Stored
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.replay.history_parts import PartReader
from kgroups_spark.replay.stored_tables import TaskShards
from kgroups_spark.runner import numbers
from kgroups_spark.tables.internal import NIGHT, REREAD
from kgroups_spark.tables.schemas import CHECKPOINTS
from kgroups_spark.tasks import sinks
from kgroups_spark.tasks.outputs import Fact, ForReplay, ShardBegins, ShardLost, TaskOutput
from kgroups_spark.tasks.replay_stage import shards_in, shards_of_parts
from kgroups_spark.tasks.sinks import Given, Work, sink_of, written
from tests.lake.table_rows import rows_of
from tests.nights.stored_replays import given_rows


def test_nothing_of_a_lost_shard_counts(tmp_path: Path, local) -> None:
    lake = Lake.create(local, str(tmp_path / "lake"))
    writes = LakeWriter(lake, 1, lambda: None)
    with sink_of(writes, for_replay=True) as sink:
        made = sink.run(Given(numbers(1)), three_shards())
        assert (made.facts, made.rows) == (["1 is read", "2 is lost", "3 is read"], {"offset_commits": 4})
        assert sorted(sink.table(writes, "offset_commits")["offsets_partition"].to_pylist()) == [1, 1, 3, 3]
        shards = Stored(lake, sink.history()).shards(TaskShards(((1, 2, 3),), {}))
        found = {}
        for number, parts in shards_in(given_rows(shards).to_batches()):
            for table in ("offset_commits", "transaction_markers"):
                for is_again in (False, True):
                    some = [part for part in parts if part.table == table and part.is_again == is_again]
                    found[number, table, is_again] = PartReader().rows(some, table, number).num_rows
    assert {place: rows for place, rows in found.items() if rows} == {
        (1, "offset_commits", False): 2,
        (1, "transaction_markers", False): 1,
        (1, "offset_commits", True): 1,
        (3, "offset_commits", False): 2,
        (3, "transaction_markers", False): 1,
        (3, "offset_commits", True): 1,
    }


def test_a_shard_gets_the_parts_that_may_have_rows_of_it(tmp_path: Path, local) -> None:
    lake = Lake.create(local, str(tmp_path / "lake"))
    writes = LakeWriter(lake, 1, lambda: None)
    with sink_of(writes, for_replay=True) as sink:
        for shard in (1, 3):
            rows = rows_of("offset_commits", {"offsets_partition": shard, "group_id": "g"})
            sink.run(Given(numbers(1)), lambda _, rows=rows: iter([("offset_commits", rows)]))
        one, three = sink.history()
        assert (one.shards, three.shards) == ((1, 1), (3, 3))
        not_known = one._replace(shards=None)
        rows = shards_of_parts([(1, 2, 3)], [one, three, not_known])[0]
    found = {number: [part.place for part in parts] for number, parts in shards_in(rows.to_batches())}
    assert found == {1: [one.place, one.place], 2: [one.place], 3: [three.place, one.place]}


def test_a_task_gives_its_facts_in_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "LINES_AT_ONCE", 3)
    lots = [[payload for _, payload in lines] for lines in written(map(Fact, range(8)), {})]
    assert lots == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_a_task_holds_back_the_facts_of_a_shard_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "LINES_AT_ONCE", 3)
    outputs = [ShardBegins("0"), *map(Fact, range(4)), ShardBegins("1"), *map(Fact, range(4, 8)), ShardLost(), Fact(8)]
    lots = [[payload for _, payload in lines] for lines in written(outputs, {})]
    assert lots == [[0, 1, 2, 3], [8]]


def three_shards() -> Work:
    """The work of a task that loses the second of three shards."""
    commits = {number: rows_of("offset_commits", *[{"offsets_partition": number}] * 2) for number in (1, 2, 3)}
    markers = {number: rows_of("transaction_markers", {"offsets_partition": number}) for number in (1, 2, 3)}

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[TaskOutput]:
        for _ in batches:
            for number in (1, 2, 3):
                yield ShardBegins(str(number))
                yield "offset_commits", commits[number]
                yield ForReplay("transaction_markers", markers[number])
                yield ForReplay("offset_commits", commits[number].slice(1), is_again=True)
                yield Fact(f"{number} is read")
                if number == 2:
                    yield ShardLost()
                    yield Fact("2 is lost")

    return work


@pytest.mark.spark
def test_the_states_of_a_night_in_one_task_go_into_other_files_than_corrections(
    spark, tmp_path: Path
) -> None:
    lake = Lake.create(spark, str(tmp_path / "lake"))
    writes = LakeWriter(lake, 1, lambda: None)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[TaskOutput]:
        for _ in batches:
            for reason in (NIGHT, REREAD):
                yield CHECKPOINTS, rows_of(CHECKPOINTS, {"audit_id": 1, "reason": reason})

    with sink_of(writes, for_replay=False) as sink:
        sink.run(Given(numbers(1)), work)
        sink.replace(writes, CHECKPOINTS)
    reasons = [
        [file.bound(which, "reason") for which in ("minValues", "maxValues")]
        for file in lake.table(CHECKPOINTS).files()
    ]
    assert sorted(reasons) == [[NIGHT, NIGHT], [REREAD, REREAD]]
