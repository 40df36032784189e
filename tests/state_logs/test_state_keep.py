"""History of the two other logs, reduced: what is left leads to the same state, by the rules of every release."""

from __future__ import annotations

import copy

import duckdb
import pytest

from kgroups_spark.lake.replaced import STATE_LOGS
from kgroups_spark.tables.definitions import KEEP
from tests.chosen import one_of
from tests.history.random_history import reduced
from tests.lake.table_rows import rows_of as table_rows
from tests.nights.state_nights import StateNights
from tests.records.build import batch
from tests.share_coordinator import histories as shares
from tests.transaction_coordinator import histories as transactions
from tests.views.arrow_tables import in_duckdb, rows_of
from tests.views.state_lakes import OF_LOG, SHARE, TRANSACTION, in_order, lake_of

LENGTH, HORIZON = 90, 60
RELEASES = {SHARE: ("4.4", "4.2", "4.1", "4.0"), TRANSACTION: ("4.4", "3.5", "0.11")}
SEEDS = range(4)


def log_of(topic, seed):
    """A batch a record, a second apart; of share records every other seed has some in the layout of 4.0. One of a type
    that is unknown comes three times."""
    if topic == SHARE:
        records = [
            (shares.key_bytes(one), shares.value_bytes(one, early=seed % 2 == 1 and n % 3 == 0))
            for n, one in enumerate(shares.history(seed, length=LENGTH))
        ]
    else:
        records = [
            (transactions.key_bytes(name), value) for name, _, value in transactions.history(seed, length=LENGTH)
        ]
    for offset in (5, 9, 70):
        records[offset] = (b"\0\x63", b"x")
    return b"".join(batch(n, [record], base_timestamp=1000 * n) for n, record in enumerate(records))


CASES = [case for topic in RELEASES for case in one_of(*((topic, seed) for seed in SEEDS))]


@pytest.fixture(scope="module", params=CASES)
def both(request):
    """The nights as they are, and those whose history is reduced."""
    topic, seed = request.param
    whole, log = StateNights(topic), log_of(topic, seed)
    whole.audit(log)
    horizons = {(topic, whole.partition): HORIZON}
    tables = {name: table_rows(name, *whole.tables[name]) for name in STATE_LOGS if name in whole.tables}
    left = reduced(tables, {}, horizons)
    few = copy.deepcopy(whole)
    for name, rows in left.items():
        few.tables[name] = sorted(rows.to_pylist(), key=lambda row: row["log_offset"])
        again = reduced({name: rows}, {}, horizons)[name].to_pylist()
        assert sorted(map(repr, again)) == sorted(map(repr, rows.to_pylist()))
    return whole, few


def test_reduction_removes_records_but_none_above_the_horizon(both):
    whole, reduced = both
    for name in STATE_LOGS:
        rows, left = whole.tables.get(name, []), reduced.tables.get(name, [])
        assert [row for row in rows if row["log_offset"] >= HORIZON] == [
            row for row in left if row["log_offset"] >= HORIZON
        ]
        assert all(row in rows for row in left)
    records = next(name for name in whole.tables if name.endswith("_state_records"))
    assert len(reduced.tables[records]) < len(whole.tables[records])
    unknown = [row["log_offset"] for row in reduced.tables["state_quarantine"] if row["record_type"] == 99]
    assert unknown == [9, 70]
    assert {row["log_offset"] >= HORIZON for row in reduced.tables.get("state_events", [])} <= {True}


def test_a_rebuild_by_any_release_gives_the_same_state(both):
    whole, reduced = both
    for version in RELEASES[whole.topic]:
        for nights in both:
            nights.rebuild(version)
        assert (reduced.now(), reduced.state) == (whole.now(), whole.state), version


def test_later_moments_stay_as_they_were_and_earlier_ones_are_not_reported(both):
    whole, reduced = both
    place = {"reason": KEEP, "log": whole.topic, "offsets_partition": whole.partition}
    kept = table_rows("checkpoints", place | {"log_offset": HORIZON})
    before = in_duckdb(lake_of(whole))
    after = in_duckdb(lake_of(reduced) | {"checkpoints": kept})
    for name in OF_LOG[whole.topic]:
        for second in (HORIZON - 1, LENGTH):
            query = f"SELECT * FROM {name}_as_of(make_timestamptz({second}000000))"
            assert in_order(rows_of(after, query)) == in_order(rows_of(before, query)), (name, second)
        with pytest.raises(duckdb.Error, match=f"of {whole.topic} below log offset {HORIZON} .* ask for a later time"):
            rows_of(after, f"SELECT * FROM {name}_as_of(make_timestamptz({HORIZON - 2}000000))")


def test_names_of_old_producers_stay(both):
    whole, reduced = both
    if whole.topic == TRANSACTION:
        query = "SELECT producer_id FROM transactional_producers"
        assert rows_of(in_duckdb(lake_of(reduced)), query) == rows_of(in_duckdb(lake_of(whole)), query)
