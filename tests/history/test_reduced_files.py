"""Reduced history as tasks make it, of files and of packed rows: equal to that of plain rows in memory."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest

from kgroups_spark.audit import keep
from kgroups_spark.audit.keep import Reduction
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.parts import PartWriter
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import one_of
from tests.history.random_history import as_tables, in_order, random_tables
from tests.lake.table_rows import rows_of
from tests.nights.lakes import rows
from tests.twin.reduction_twin import state_twin, twin

LONG_AGO = -(1 << 62)
TOPIC = "__transaction_state"
EVENTS = {"group_events": {"offsets_partition": 1}, "state_events": {"log": TOPIC, "state_partition": 1}}


def lake_with(local: Any, folder: Path, tables: Mapping[str, pa.Table], rng: random.Random) -> Lake:
    """A lake with these rows, each table in some files."""
    lake = Lake.create(local, str(folder))
    for name, table in tables.items():
        order = rng.sample(range(len(table)), len(table))
        cuts = sorted(rng.sample(range(len(table) + 1), 3))
        for start, end in zip([0, *cuts], [*cuts, len(table)], strict=True):
            part = PartWriter(name, lake.uri, 1).write(table.take(pa.array(order[start:end], pa.int64())))
            lake.table(name).commit([part] if part else [], by="test", transaction=None)
    return lake


def state_records(rng: random.Random) -> list[dict[str, Any]]:
    """Rows of transaction_state_records."""
    return [
        {
            "state_partition": rng.randint(0, 3),
            "log_offset": log_offset,
            "transactional_id": rng.choice("abc"),
            "value_version": 1,
            "value": '{"producerId": 1, "transactionStatus": 0}',
        }
        for log_offset in range(60)
    ]


@pytest.mark.parametrize("seed", one_of(*range(4)))
def test_files_are_reduced_by_tasks_as_rows_are(local, seed, tmp_path, monkeypatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(keep, "ROWS_PER_TASK", rng.choice([1, 40, 1 << 20]))
    monkeypatch.setattr(local, "slots", 3)
    tables, of = random_tables(rng, 3), {partition: rng.randint(20, 80) for partition in range(2)}
    of_states = {(TOPIC, partition): rng.randint(0, 60) for partition in range(3)}
    whole = as_tables(tables) | {
        "transaction_state_records": rows_of("transaction_state_records", *state_records(rng)),
        **{name: rows_of(name, *({**each, "log_offset": n} for n in range(80))) for name, each in EVENTS.items()},
    }
    lake = lake_with(local, tmp_path / "lake", whole, rng)
    reduction = Reduction(lake, of, of_states, LONG_AGO)
    before = {name: {file.path for file in lake.table(name).files()} for name in TABLES}
    foreseen = reduction.foreseen()
    assert {name: {file.path for file in lake.table(name).files()} for name in TABLES} == before
    removed = reduction.apply(LakeWriter(lake, 2, lambda: None), lambda line: None)
    assert removed == foreseen
    records = "transaction_state_records"
    expected = twin(tables, of) | {records: state_twin(records, whole[records].to_pylist(), of_states)}
    for name, place in (("group_events", of[1]), ("state_events", of_states[TOPIC, 1])):
        expected[name] = [row for row in whole[name].to_pylist() if row["log_offset"] >= place]
    for name, wanted in expected.items():
        assert in_order(rows(tmp_path / "lake", name)) == in_order(wanted), name
        assert removed.get(name, 0) == len(whole[name]) - len(wanted)
    # A second reduction removes nothing, and leaves all files as they are.
    after = {name: {file.path for file in lake.table(name).files()} for name in TABLES}
    assert reduction.apply(LakeWriter(lake, 3, lambda: None), lambda line: None) == {}
    assert {name: {file.path for file in lake.table(name).files()} for name in TABLES} == after


def test_rows_that_a_task_does_not_find_are_not_lost(local, tmp_path, monkeypatch) -> None:
    rng = random.Random(1)
    tables = random_tables(rng, 3)
    lake = lake_with(local, tmp_path / "lake", as_tables(tables), rng)
    without_the_last = [[("offsets_partition", 0)], [("offsets_partition", 1)]]
    monkeypatch.setattr(keep, "by_weight", lambda *_: without_the_last)
    reduction = Reduction(lake, dict.fromkeys(range(3), 80), {}, LONG_AGO)
    with pytest.raises(keep.KgroupsError, match=r"of \d+ rows were found; nothing was changed"):
        reduction.apply(LakeWriter(lake, 2, lambda: None), lambda line: None)
    assert in_order(rows(tmp_path / "lake", "offset_commits")) == in_order(tables["offset_commits"])
