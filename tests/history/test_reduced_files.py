"""Reduced history of files: equal to that of plain rows in memory."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest

from kgroups_spark.audit import keep
from kgroups_spark.audit.keep import KeptHistory
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.parts import PartWriter
from kgroups_spark.lake.replaced import Replaced, ReplacedRange
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.tables.definitions import KEEP
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import to_epoch_ms
from tests.chosen import one_of
from tests.history.random_history import as_tables, in_order, random_tables
from tests.lake.table_rows import MOMENT, rows_of
from tests.nights.lakes import contents, rows
from tests.twin.reduction_twin import reduced

LONG_AGO = 0
TOPIC, SHARES_TOPIC = "__transaction_state", "__share_group_state"
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


def places(of: Mapping[int, int]) -> dict[Any, int]:
    """The H of partitions of __consumer_offsets."""
    return {(None, number): at for number, at in of.items()}


@pytest.mark.parametrize("seed", one_of(*range(4)))
def test_files_are_reduced_as_rows_are(local, seed, tmp_path) -> None:
    rng = random.Random(seed)
    tables, of = random_tables(rng, 3), {partition: rng.randint(20, 80) for partition in range(2)}
    of_states = {(TOPIC, partition): rng.randint(0, 60) for partition in range(3)}
    whole = as_tables(tables) | {
        "transaction_state_records": rows_of("transaction_state_records", *state_records(rng)),
        **{name: rows_of(name, *({**each, "log_offset": n} for n in range(80))) for name, each in EVENTS.items()},
    }
    lake = lake_with(local, tmp_path / "lake", whole, rng)
    reduction = KeptHistory(lake, places(of) | of_states, LONG_AGO)
    before = {name: {file.path for file in lake.table(name).files()} for name in TABLES}
    foreseen = KeptHistory(lake, places(of) | of_states, LONG_AGO).foreseen()
    assert {name: {file.path for file in lake.table(name).files()} for name in TABLES} == before
    removed = reduction.apply(LakeWriter(lake, 2, lambda: None), lambda line: None)
    assert removed == foreseen
    expected = {name: left.to_pylist() for name, left in reduced(whole, of, of_states).items()}
    for name, place in (("group_events", of[1]), ("state_events", of_states[TOPIC, 1])):
        assert expected[name] == [row for row in expected[name] if row["log_offset"] >= place] != []
    for name, wanted in expected.items():
        assert in_order(rows(tmp_path / "lake", name)) == in_order(wanted), name
        assert removed.get(name, 0) == len(whole[name]) - len(wanted)
    # A second reduction removes nothing, and leaves all files as they are.
    after = {name: {file.path for file in lake.table(name).files()} for name in TABLES}
    again = KeptHistory(lake, places(of) | of_states, LONG_AGO)
    assert again.apply(LakeWriter(lake, 3, lambda: None), lambda line: None) == {}
    assert {name: {file.path for file in lake.table(name).files()} for name in TABLES} == after


SHARES = [
    {"record_type": 0, "value": "{}", "layout": ""},
    {"record_type": 1, "value": "{}", "layout": "4.0"},
    {"record_type": 1, "value": "{}", "layout": "? 4.0"},
    {"record_type": 0, "value": None},
]


def every_kind_of_row(rng: random.Random) -> dict[str, pa.Table]:
    """Rows of every table that is reduced, with log times."""
    hours = [MOMENT + timedelta(hours=n) for n in range(80)]
    timed = [{"log_offset": n, "log_timestamp": hour} for n, hour in enumerate(hours)]
    statuses = [
        f'{{"producerId": {n % 3}, "transactionStatus": {status}, {rest}}}'
        for n, (status, rest) in enumerate(
            [
                (0, '"clientTransactionVersion": 3'),
                (9, '"transactionPartitions": null'),
                (1, '"transactionPartitions": []'),
            ]
        )
    ]
    rows = {
        name: [{**row, "log_timestamp": hours[row["log_offset"]]} for row in each]
        for name, each in random_tables(rng, 3).items()
    }
    rows |= {
        "group_events": [{"offsets_partition": 1, **row} for row in timed],
        "state_events": [{"log": TOPIC, "state_partition": 1, **row} for row in timed],
        "share_group_state_records": [
            {"state_partition": 2, "group_id": rng.choice("gh"), **rng.choice(SHARES), **row} for row in timed
        ],
        "transaction_state_records": [
            {"state_partition": 1, "transactional_id": rng.choice("ab"), "value": rng.choice([None, *statuses]), **row}
            for row in timed
        ],
        "state_quarantine": [
            {"log": TOPIC, "state_partition": 1, "reason": rng.choice(["truncated", "unknown_record_type"]), **row}
            for row in timed
        ],
        "group_traffic": [{"hour": hour} for hour in [*hours, None]],
        "topic_offsets": [{"seen_at": hour, "audit_id": n} for n, hour in enumerate(hours)],
        "checkpoints": [
            {"reason": KEEP, "audit_id": n, "log": log, "log_offset": 1} for n, log in enumerate([None, None, TOPIC])
        ],
    }
    return {name: rows_of(name, *each) for name, each in rows.items()}


@pytest.mark.spark
def test_spark_answers_as_duckdb(local, spark, tmp_path) -> None:
    rng = random.Random(5)
    lake_with(local, tmp_path / "duckdb", every_kind_of_row(rng), rng)
    shutil.copytree(tmp_path / "duckdb", tmp_path / "spark")
    ends = [
        *(PartitionProgress(n, 0, 90) for n in range(3)),
        PartitionProgress(1, 0, 90, topic=TOPIC),
        PartitionProgress(2, 0, 90, topic=SHARES_TOPIC),
    ]
    audit = AuditRow(
        1, "finished", "o", MOMENT + timedelta(days=9), partitions=tuple(ends[:3]), state_partitions=tuple(ends[3:])
    )
    moment_ms, found = to_epoch_ms(MOMENT) + 50 * 3_600_000, []
    for session, folder in ((local, "duckdb"), (spark, "spark")):
        lake = Lake.create(session, str(tmp_path / folder))
        lake.replaced = Replaced((ReplacedRange(0, 20, 30, 2), ReplacedRange(1, 5, 10, 1, TOPIC)))
        of = keep.new_horizons(lake, audit, moment_ms)
        removed = KeptHistory(lake, of, moment_ms).apply(LakeWriter(lake, 2, lambda: None), lambda line: None)
        found.append((of, removed, contents(tmp_path / folder)))
    assert found[0] == found[1]
    assert {(None, 0), (TOPIC, 1), (SHARES_TOPIC, 2)} <= found[0][0].keys()
    assert found[0][1].keys() == every_kind_of_row(rng).keys() - {"checkpoints"}


@pytest.mark.parametrize(("query", "message"), [("counts", "were found"), ("rows_left", "would be missing")])
def test_rows_that_a_query_does_not_find_are_not_lost(local, query, message, tmp_path, monkeypatch) -> None:
    rng = random.Random(1)
    tables = random_tables(rng, 3)
    lake = lake_with(local, tmp_path / "lake", as_tables(tables), rng)
    name = {"counts": "answer", "rows_left": "write_answer"}[query]
    ask = getattr(keep, name)

    def without_a_file(*given: Any, **more: Any) -> Any:
        *first, files = given
        return ask(*first, {name: some[:-1] for name, some in files.items()}, **more)

    monkeypatch.setattr(keep, name, without_a_file)
    reduction = KeptHistory(lake, places(dict.fromkeys(range(3), 80)), LONG_AGO)
    with pytest.raises(keep.KgroupsError, match=rf"\d+ rows.* {message}; nothing was changed"):
        reduction.apply(LakeWriter(lake, 2, lambda: None), lambda line: None)
    assert in_order(rows(tmp_path / "lake", "offset_commits")) == in_order(tables["offset_commits"])
