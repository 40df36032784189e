"""Old history reduced: each rule by rows, and all of them on random logs."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest

from kgroups_spark.audit import keep
from kgroups_spark.audit.keep import STORED, KeptHistory, Reduction
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.parts import PartWriter
from kgroups_spark.lake.replaced import NOTHING, Replaced, ReplacedRange
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.tables.definitions import KEEP
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import to_epoch_ms
from tests.chosen import one_of, some_of
from tests.history.random_history import NAMES, RandomLog, as_tables, commit, in_order, marker, random_tables, reduced
from tests.lake.table_rows import MOMENT, rows_of
from tests.nights import lakes
from tests.protocol.fake_delta import answer


def left(horizon, **tables):
    """By table the offsets of rows that stay."""
    found = reduced({name: rows_of(name, *rows) for name, rows in tables.items()}, {0: horizon})
    return {name: sorted(rows["log_offset"].to_pylist()) for name, rows in found.items()}


def kept(commits, markers=(), horizon=100):
    return left(horizon, offset_commits=commits, transaction_markers=markers)["offset_commits"]


def test_values_of_aborted_transactions_go_and_hide_nothing():
    commits = [commit(1), commit(2, producer=9), commit(3, "h", value=False, producer=9)]
    assert kept(commits, [marker(4, 9, 2, "aborted")]) == [1, 3]
    assert kept(commits, [marker(4, 9, 2)]) == [2, 3]
    # A commit that was read together with its marker has the outcome in its own row.
    reported = [commit(1), commit(2, producer=9, outcome="aborted", marker_offset=4)]
    assert kept(reported) == [1]


def test_a_transaction_that_is_open_at_the_horizon_stays_and_hides_nothing():
    commits = [commit(1), commit(2, producer=9), commit(3, producer=9), commit(4, producer=8)]
    assert kept(commits, [marker(100, 9, 2, "aborted"), marker(5, 8, 4)]) == [2, 3, 4]
    assert kept(commits[:3]) == [1, 2, 3]
    # A later marker ends only what began at or after its start.
    assert kept(commits[:3], [marker(9, 9, 3)]) == [2, 3]
    assert kept([commit(1), commit(2, producer=9)], [marker(9, 9, 3, "aborted")]) == [1, 2]


def rows_left(name, rows, moment):
    """The rows of a table without offsets of a log that stay."""
    query = Reduction({}, NOTHING, int(moment.timestamp() * 1000)).rows_left(name)
    return answer(query, {f"{STORED}{each}": rows if each == name else rows_of(each) for each in TABLES})


def test_traffic_is_removed_by_whole_hours():
    hours = [MOMENT.replace(hour=hour, minute=0, second=0, microsecond=0) for hour in (4, 5, 6)]
    rows = rows_of("group_traffic", *({"hour": hour} for hour in hours), {"hour": None})
    assert rows_left("group_traffic", rows, hours[2])["hour"].to_pylist() == [hours[2], None]


def test_the_last_seen_end_of_a_topic_is_kept_however_old():
    hours = {1: 4, 2: 5, 3: 6}
    seen = [{"audit_id": audit_id, "seen_at": MOMENT.replace(hour=hour)} for audit_id, hour in hours.items()]

    def stay(moment):
        return rows_left("topic_offsets", rows_of("topic_offsets", *seen), moment)["audit_id"].to_pylist()

    assert stay(MOMENT.replace(hour=5)) == [2, 3]
    assert stay(MOMENT.replace(hour=9)) == [3]
    assert stay(MOMENT.replace(hour=4)) == [1, 2, 3]


def test_the_newest_facts_of_the_cluster_are_kept_however_old():
    facts = rows_of("cluster_facts", *({"audit_id": audit_id} for audit_id in (1, 2, 3)))
    given = {f"{STORED}{each}": facts if each == "cluster_facts" else rows_of(each) for each in TABLES}
    for old, stay in (((1, 2), [3]), ((1, 2, 3), [3]), ((), [1, 2, 3])):
        query = Reduction({}, NOTHING, 0, old_audits=old).rows_left("cluster_facts")
        assert answer(query, given)["audit_id"].to_pylist() == stay


# The numbers of the rows that stay of the logs below, by table. The rules of audit/keep.py in plain loops, row by row,
# found them: tests/twin/reduction_twin.py at commit 411483fb.
with gzip.open(Path(__file__).parent / "data" / "rows_left.json.gz", "rt") as file:
    LEFT = json.load(file)


def numbered(tables, numbers):
    """The rows with these numbers, by table."""
    return {name: [rows[number] for number in numbers[name]] for name, rows in tables.items()}


def assert_left(found, expected):
    for name, rows in expected.items():
        assert in_order(found[name].to_pylist()) == in_order(rows), name


@pytest.mark.parametrize("seed", some_of(2, *range(12)))
def test_random_logs_are_reduced_by_the_rules(seed):
    rng = random.Random(seed)
    tables, horizons = random_tables(rng, 6), {partition: rng.randint(0, 80) for partition in range(5)}
    expected = numbered(tables, LEFT["random"][seed])
    assert all(len(expected[name]) < len(tables[name]) for name in ("offset_commits", "transaction_markers"))
    whole = as_tables(tables)
    found = reduced(whole, horizons)
    assert_left(found, expected)
    # A second time, and after a kill between the tables, to the same; markers come last.
    for name, rows in reduced(found, horizons).items():
        assert in_order(rows.to_pylist()) == in_order(found[name].to_pylist())
    done = rng.sample(NAMES[:-1], 3)
    assert_left(reduced({name: (found if name in done else whole)[name] for name in NAMES}, horizons), expected)


@pytest.mark.parametrize("seed", one_of(*range(6)))
def test_replaced_rows_below_the_horizon_go_and_count_for_nothing(seed):
    rng = random.Random(seed)
    log, began = RandomLog(rng, 0), {}
    log.write(range(20), began, 1)
    before_cut = dict(began)
    log.write(range(20, 40), began, 1)
    replaced = Replaced((ReplacedRange(0, 20, 40, 2),))
    gone = {name: [row for row in rows if row["log_offset"] >= 20] for name, rows in log.tables.items()}
    for rows in log.tables.values():
        rows[:] = [row for row in rows if row["log_offset"] < 20]
    for row in log.tables["offset_commits"]:
        if (row["marker_offset"] or 0) >= 20:
            row |= {"outcome": None, "marker_offset": None}
    log.write(range(20, 60), before_cut, 2)
    horizon = rng.randint(10, 60)
    expected = numbered(log.tables, LEFT["replaced"][seed])
    for name, rows in gone.items():
        expected[name] += [row for row in rows if row["log_offset"] >= horizon]
    whole = {name: rows_of(name, *rows, *gone[name]) for name, rows in log.tables.items()}
    assert_left(reduced(whole, {0: horizon}, replaced=replaced), expected)


# Reduced history of files: equal to that of plain rows in memory.
LONG_AGO = 0
TOPIC, SHARES_TOPIC = "__transaction_state", "__share_group_state"
EVENTS = {"group_events": {"offsets_partition": 1}, "state_events": {"log": TOPIC, "state_partition": 1}}


def lake_with(local, folder, tables, rng):
    """A lake with these rows, each table in some files."""
    lake = Lake.create(local, str(folder))
    for name, table in tables.items():
        order = rng.sample(range(len(table)), len(table))
        cuts = sorted(rng.sample(range(len(table) + 1), 3))
        for start, end in zip([0, *cuts], [*cuts, len(table)], strict=True):
            part = PartWriter(name, lake.uri, 1).write([table.take(pa.array(order[start:end], pa.int64()))])
            lake.table(name).commit([part] if part else [], by="test", transaction=None)
    return lake


def state_records(rng):
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


def places(of):
    """The H of partitions of __consumer_offsets."""
    return {(None, number): at for number, at in of.items()}


@pytest.mark.parametrize("seed", one_of(*range(4)))
def test_files_are_reduced_as_rows_are(local, seed, tmp_path):
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
        assert in_order(lakes.rows(tmp_path / "lake", name)) == in_order(wanted), name
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


def every_kind_of_row(rng):
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
def test_spark_answers_as_duckdb(local, spark, tmp_path):
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
        found.append((of, removed, lakes.contents(tmp_path / folder)))
    assert found[0] == found[1]
    assert {(None, 0), (TOPIC, 1), (SHARES_TOPIC, 2)} <= found[0][0].keys()
    assert found[0][1].keys() == every_kind_of_row(rng).keys() - {"checkpoints"}


@pytest.mark.parametrize(("query", "message"), [("counts", "were found"), ("rows_left", "would be missing")])
def test_rows_that_a_query_does_not_find_are_not_lost(local, query, message, tmp_path, monkeypatch):
    rng = random.Random(1)
    tables = random_tables(rng, 3)
    lake = lake_with(local, tmp_path / "lake", as_tables(tables), rng)
    name = {"counts": "answer", "rows_left": "write_answer"}[query]
    ask = getattr(keep, name)

    def without_a_file(*given, **more):
        *first, files = given
        return ask(*first, {name: some[:-1] for name, some in files.items()}, **more)

    monkeypatch.setattr(keep, name, without_a_file)
    reduction = KeptHistory(lake, places(dict.fromkeys(range(3), 80)), LONG_AGO)
    with pytest.raises(keep.KgroupsError, match=rf"\d+ rows.* {message}; nothing was changed"):
        reduction.apply(LakeWriter(lake, 2, lambda: None), lambda line: None)
    assert in_order(lakes.rows(tmp_path / "lake", "offset_commits")) == in_order(tables["offset_commits"])
