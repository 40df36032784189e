"""Old history reduced: each rule by rows, and all of them on random logs against a slow twin."""

from __future__ import annotations

import random

import pytest

from kgroups_spark.audit.keep import STORED, Reduction
from kgroups_spark.lake.replaced import NOTHING, Replaced, ReplacedRange
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import some_of
from tests.history.random_history import NAMES, RandomLog, as_tables, commit, in_order, marker, random_tables
from tests.lake.table_rows import MOMENT, rows_of
from tests.protocol.fake_delta import answer
from tests.twin.reduction_twin import reduced, twin


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


def assert_as_by_hand(found, expected):
    for name, rows in expected.items():
        assert in_order(found[name].to_pylist()) == in_order(rows), name


@pytest.mark.parametrize("seed", some_of(3, *range(12)))
def test_random_logs_are_reduced_as_by_hand(seed, monkeypatch):
    rng = random.Random(seed)
    tables, horizons = random_tables(rng, 6), {partition: rng.randint(0, 80) for partition in range(5)}
    expected = twin(tables, horizons)
    assert all(len(expected[name]) < len(tables[name]) for name in ("offset_commits", "transaction_markers"))
    whole = as_tables(tables)
    found = reduced(whole, horizons)
    assert_as_by_hand(found, expected)
    # A second time, and after a kill between the tables, to the same; markers come last.
    for name, rows in reduced(found, horizons).items():
        assert in_order(rows.to_pylist()) == in_order(found[name].to_pylist())
    done = rng.sample(NAMES[:-1], 3)
    assert_as_by_hand(reduced({name: (found if name in done else whole)[name] for name in NAMES}, horizons), expected)


@pytest.mark.parametrize("seed", some_of(2, *range(6)))
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
    expected = twin(log.tables, {0: horizon})
    for name, rows in gone.items():
        expected[name] += [row for row in rows if row["log_offset"] >= horizon]
    whole = {name: rows_of(name, *rows, *gone[name]) for name, rows in log.tables.items()}
    assert_as_by_hand(reduced(whole, {0: horizon}, replaced=replaced), expected)
