"""The outputs of tasks by both sinks: which rows count if a shard is lost in the middle of its outputs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.replay import sinks
from kgroups_spark.replay.sinks import (
    AGAIN,
    PASSED_ON,
    ROWS,
    Fact,
    ForReplay,
    Given,
    ShardBegins,
    ShardLost,
    TaskOutput,
    Work,
    sink_of,
    written,
)
from kgroups_spark.replay.stored_history import PartReader
from kgroups_spark.spark.tasks import numbers
from kgroups_spark.tables.definitions import NIGHT, REREAD
from kgroups_spark.tables.schemas import CHECKPOINTS
from tests.lake.table_rows import rows_of


def test_nothing_of_a_lost_shard_counts(tmp_path: Path, local) -> None:
    lake = Lake.create(local, str(tmp_path / "lake"))
    writes = LakeWriter(lake, 1, lambda: None)
    with sink_of(writes, for_replay=True) as sink:
        made = sink.run(Given(numbers(1)), three_shards())
        assert (made.facts, made.rows) == (["1 is read", "2 is lost", "3 is read"], {"offset_commits": 4})
        assert sorted(sink.table(writes, "offset_commits")["offsets_partition"].to_pylist()) == [1, 1, 3, 3]
        reader, found = PartReader((1, 2, 3)), {}
        for is_again, kinds in ((False, (ROWS, PASSED_ON)), (True, (AGAIN,))):
            for name, table in sink.tables(kinds, ("offset_commits", "transaction_markers")).items():
                for number in (1, 2, 3):
                    found[number, name, is_again] = reader.rows(table, number).num_rows
    assert {place: rows for place, rows in found.items() if rows} == {
        (1, "offset_commits", False): 2,
        (1, "transaction_markers", False): 1,
        (1, "offset_commits", True): 1,
        (3, "offset_commits", False): 2,
        (3, "transaction_markers", False): 1,
        (3, "offset_commits", True): 1,
    }


def test_a_task_gives_its_facts_in_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "LINES_AT_ONCE", 3)
    assert lots_of(map(Fact, range(8))) == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_a_task_holds_back_the_facts_of_a_shard_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "LINES_AT_ONCE", 3)
    outputs = [ShardBegins("0"), *map(Fact, range(4)), ShardBegins("1"), *map(Fact, range(4, 8)), ShardLost(), Fact(8)]
    assert lots_of(outputs) == [[0, 1, 2, 3], [8]]


def lots_of(outputs: Iterable[TaskOutput]) -> list[list[Any]]:
    lots = written(lambda _: outputs, {}, iter(()))
    return [list(map(json.loads, lot["payload"].to_pylist())) for lot in lots]


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
def test_the_states_of_a_night_in_one_task_go_into_other_files_than_corrections(spark, tmp_path: Path) -> None:
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
