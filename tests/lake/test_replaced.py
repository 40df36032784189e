"""Which rows are replaced, asked in three ways: by pyarrow, by SQL, and as the ledger's spans."""

from __future__ import annotations

import itertools
import random
import re
from functools import cache

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.local import Local
from kgroups_spark.lake.parts import PartWriter
from kgroups_spark.lake.replaced import NOTHING, REPLACEABLE, Replaced, ReplacedRange
from kgroups_spark.lake.store import TableFile
from kgroups_spark.lake.writer import is_of_night, newest_state, rows_of_state
from kgroups_spark.messages.coordinator_records import SHARE_LOG, TRANSACTION_LOG
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES
from tests.chosen import one_of
from tests.lake.table_rows import rows_of
from tests.nights.cleaned_nights import Nights
from tests.nights.forgetful_nights import REPORTED, comparable, three_nights
from tests.nights.nights_here import Audited, how_of
from tests.protocol.fake_delta import in_memory

# The log of partition 0 was cut back to 60, then to 40; the one of partition 1 to 10.
RANGES = Replaced((ReplacedRange(0, 60, 100, 5), ReplacedRange(0, 40, 70, 7), ReplacedRange(1, 10, 20, 7)))
# The same of the other logs, and what stands in their rows' column `log`.
SHARE, TRANSACTIONS = SHARE_LOG.topic, TRANSACTION_LOG.topic
STATE_RANGES = Replaced(
    (ReplacedRange(0, 60, 100, 5, SHARE), ReplacedRange(0, 40, 70, 7, TRANSACTIONS), ReplacedRange(1, 10, 20, 7, SHARE))
)
LOGS_OF = {
    "share_group_state_records": (SHARE,),
    "transaction_state_records": (TRANSACTIONS,),
    "state_quarantine": (SHARE, TRANSACTIONS),
    "state_events": (SHARE, TRANSACTIONS),
}


def columns_of(name):
    """The columns of a row's partition, and of the audit that wrote it."""
    partition = "state_partition" if name in LOGS_OF else "offsets_partition"
    return partition, "decided_by" if name == "previous_offset_expiry" else "audit_id"


def table_of(name):
    """A row for every log, partition, offset and audit."""
    partition, by = columns_of(name)
    known = TABLES[name].columns.names
    places = itertools.product(LOGS_OF.get(name, (None,)), (0, 1, 2), (9, 10, 39, 40, 41, 59, 60, 61), (4, 5, 6, 7))
    rows = (zip(("log", partition, "log_offset", by), place, strict=True) for place in places)
    return rows_of(name, *({column: value for column, value in row if column in known} for row in rows))


def is_replaced(name, row, ranges):
    """Whether a row is after a cut, and an audit before that one read it."""
    partition, by = columns_of(name)
    log = row.get("log", LOGS_OF[name][0]) if name in LOGS_OF else None
    # A checkpoint belongs to the records before its offset.
    log_offset = row["log_offset"] - (name == "checkpoints")
    return any(
        (log, row[partition]) == (each.topic, each.offsets_partition)
        and log_offset >= each.from_offset
        and row[by] < each.audit_id
        for each in ranges.ranges
    )


@pytest.mark.parametrize("name", REPLACEABLE)
def test_rows_after_a_cut_that_earlier_audits_read_are_left_out(name):
    ranges, of_others = (STATE_RANGES, RANGES) if name in LOGS_OF else (RANGES, STATE_RANGES)
    table = table_of(name)
    stays = [row for row in table.to_pylist() if not is_replaced(name, row, ranges)]
    assert 0 < len(stays) < len(table)
    assert ranges.rows_left(name, pa.dataset.dataset(table), None, ()).to_pylist() == stays
    assert left_by_sql(name, table, ranges).to_pylist() == stays
    for none in (NOTHING, of_others):
        assert none.rows_left(name, pa.dataset.dataset(table), None, ()) == table


def left_by_sql(name, table, replaced):
    found = duckdb.from_arrow(table).query("rows", f"SELECT * FROM rows WHERE NOT ({replaced.condition(name)})")
    return found.to_arrow_table()


def places(table):
    columns = (table[name].to_pylist() for name in ("offsets_partition", "log_offset", "audit_id"))
    return sorted(zip(*columns, strict=True))


def test_a_commit_before_the_cut_loses_the_outcome_of_a_replaced_marker():
    places = [(0, 41, 4), (0, 30, 4), (0, 30, 7), (1, 5, 6), (2, 30, 4)]
    of = {"marker_offset": 50, "outcome": "committed", "is_transactional": True}
    table = rows_of(
        "offset_commits",
        *({"offsets_partition": p, "log_offset": at, "audit_id": audit, **of} for p, at, audit in places),
    )
    columns = ["offsets_partition", "audit_id", "outcome", "marker_offset"]
    reported = [(0, 4, None, None), (0, 7, "committed", 50), (1, 6, None, None), (2, 4, "committed", 50)]
    left = RANGES.rows_left("offset_commits", pa.dataset.dataset(table), columns, ())
    assert sorted(zip(*left.to_pydict().values(), strict=True), key=repr) == reported
    changed = ", ".join(f"{sql} AS {name}" for name, sql in RANGES.columns("offset_commits").items())
    query = f"SELECT * REPLACE ({changed}) FROM rows WHERE NOT ({RANGES.condition('offset_commits')})"
    by_sql = duckdb.from_arrow(table).query("rows", query).to_arrow_table().select(columns)
    assert sorted(zip(*by_sql.to_pydict().values(), strict=True), key=repr) == reported
    open_then = [Condition("outcome", "is null"), Condition("offsets_partition", "==", 0)]
    assert RANGES.rows_left("offset_commits", pa.dataset.dataset(table), ["audit_id"], open_then).to_pylist() == [
        {"audit_id": 4}
    ]


def test_statistics_know_nothing_of_replaced_markers(tmp_path):
    """Spark's OPTIMIZE writes statistics of all columns."""
    of = {"marker_offset": 50, "outcome": "committed", "is_transactional": True, "log_offset": 30, "audit_id": 4}
    lake = Lake.create(Local(), str(tmp_path))
    pq.write_table(
        rows_of("offset_commits", *({"offsets_partition": p, **of} for p in (0, 2))),
        tmp_path / "offset_commits/1.parquet",
    )
    bounds = {name: {"outcome": "committed"} for name in ("minValues", "maxValues")}
    files = [TableFile("1.parquet", {**bounds, "nullCount": {"outcome": 0}, "numRecords": 2}, 1)]
    committed = [Condition("outcome", "==", "committed")]

    def partitions(replaced):
        found = lake.rows("offset_commits", files=files, conditions=committed, replaced=replaced)
        return found["offsets_partition"].to_pylist()

    assert partitions(NOTHING) == [0, 2]
    assert partitions(RANGES) == [2]


def test_clipped_reads_end_where_the_log_was_cut_back():
    read = pa.table(
        {
            "audit_id": [3, 4, 5, 6, 7, 4],
            "offsets_partition": [0, 0, 0, 0, 0, 2],
            "start_offset": [0, 50, 60, 65, 40, 0],
            "end_offset": [50, 100, 65, 70, 80, 100],
        }
    )
    assert RANGES.clipped(read)["end_offset"].to_pylist() == [40, 40, 40, 40, 80, 100]
    assert (RANGES.first_after(0, 4), RANGES.first_after(0, 6), RANGES.first_after(0, 7)) == (40, 40, None)


def test_many_ranges_are_looked_up_by_partition():
    """As after 400 cuts of 50 partitions: no engine gets a condition that is nested as deeply as there are ranges."""
    many = Replaced(tuple(ReplacedRange(i % 50, 1000 + i, 2000 + i, 2 + i // 50) for i in range(20_000)))
    rng = random.Random(5)
    rows = [(rng.randrange(51), rng.randrange(22_000), rng.randrange(403)) for _ in range(2_000)]
    table = rows_of("group_events", *({"offsets_partition": p, "log_offset": at, "audit_id": a} for p, at, a in rows))
    by_partition = {}
    for each in many.ranges:
        by_partition.setdefault(each.offsets_partition, []).append(each)
    stays = sorted(
        row
        for row in rows
        if not any(row[1] >= each.from_offset and row[2] < each.audit_id for each in by_partition.get(row[0], ()))
    )
    assert 100 < len(stays) < 1_900
    assert places(many.rows_left("group_events", pa.dataset.dataset(table), None, ())) == stays
    few = Replaced(tuple(each for each in many.ranges if each.offsets_partition == 7))
    left = left_by_sql("group_events", table.filter(pc.field("offsets_partition") == 7), few)
    assert places(left) == [row for row in stays if row[0] == 7]


def test_a_range_that_a_later_one_covers_is_dropped():
    first, second, other = ReplacedRange(0, 60, 100, 5), ReplacedRange(0, 40, 70, 7), ReplacedRange(1, 10, 20, 7)
    assert Replaced((first,)).and_also([second, other]).ranges == (second, other)
    # It does not cover what was replaced below it, nor another partition.
    later = ReplacedRange(0, 80, 90, 9)
    assert Replaced((second, other)).and_also([later]).ranges == (second, later, other)


def test_another_logs_checkpoint_is_never_replaced():
    row = {"offsets_partition": 0, "log_offset": 90, "audit_id": 1}
    table = rows_of("checkpoints", {**row, "log": "__transaction_state"}, row)
    left = RANGES.rows_left("checkpoints", pa.dataset.dataset(table), ["log"], ())
    assert left.to_pylist() == [{"log": "__transaction_state"}]
    by_sql = duckdb.sql(f'SELECT log FROM "table" WHERE NOT ({RANGES.condition("checkpoints")})').fetchall()
    assert by_sql == [("__transaction_state",)]


# Saved states whose files others have rewritten: an audit goes on from the newest one, or rebuilds it and says so.


@cache
def two_nights():
    """The second reads the log again."""
    first, second, _ = three_nights()
    nights = Nights(how_of())
    nights.audit(first)
    nights.audit(second, delete_retention_ms=1)
    return nights.audited


def nights_and(change=None):
    """A third night after these two; the lake is changed before it."""
    nights = Nights(how_of(), audited=Audited(two_nights()))
    if change is not None:
        change(nights.audited)
    nights.audit(three_nights()[-1])
    return nights.audited


# By the offsets partition whose state is gone; None: those of all.
WHY_REBUILT = {
    None: r"audit 2 had read partition 0 up to offset \d+, and its state is that before \d+$",
    1: r"audit 2 had read partition 1 up to offset \d+, and its state is gone$",
}


@pytest.fixture(scope="module")
def undisturbed():
    return nights_and()


def joined(audited, is_one):
    """As OPTIMIZE and auto compaction do: some files of checkpoints become one."""
    with in_memory():
        lake = Lake.open(audited.session, audited.lake)
        log = lake.table(CHECKPOINTS)
        files = list(filter(is_one, log.files()))
        assert len({file.bound("minValues", "audit_id") for file in files}) > 1
        part = PartWriter(CHECKPOINTS, lake.uri, 99).write([lake.rows(CHECKPOINTS, files=files)])
        paths = {file.path for file in files}
        log.commit([part], by="OPTIMIZE", transaction=None, remove=lambda file: file.path in paths, changes_rows=False)
        assert newest_state(lake, CHECKPOINTS, 2) == 2
        assert newest_state(lake, CHECKPOINTS, 1) == 1
        assert newest_state(lake, CHECKPOINTS, 0) is None
    audited._read = {}


@pytest.mark.parametrize("files", one_of("states of two nights", "corrections, too"))
def test_a_night_goes_on_from_the_newest_state_in_compacted_files(undisturbed, files):
    is_one = is_of_night if files == "states of two nights" else lambda _: True
    found = nights_and(lambda audited: joined(audited, is_one))
    assert not [note for note in found.newest.notes or () if "rebuilt" in note]
    for name in REPORTED:
        if name != CHECKPOINTS:  # rows of older nights may be in a file that has to stay
            assert comparable(found.rows(name)) == comparable(undisturbed.rows(name)), name
    with in_memory():
        lake = Lake.open(found.session, found.lake)
        newest = [
            lake.rows(CHECKPOINTS, conditions=rows_of_state(CHECKPOINTS, audit_id)).num_rows for audit_id in (2, 3)
        ]
    assert all(newest), "the state before the last one stays, for an audit that is done again"


def taken_away(audited, offsets_partition):
    """The newest state is gone, of one offsets partition or (None) of all."""
    with in_memory():
        lake = Lake.open(audited.session, audited.lake)
        log, conditions = lake.table(CHECKPOINTS), rows_of_state(CHECKPOINTS, 2)
        rows = lake.rows(CHECKPOINTS, conditions=conditions)
        left = rows.filter([number != offsets_partition for number in rows["offsets_partition"].to_pylist()])
        parts = [PartWriter(CHECKPOINTS, lake.uri, 2).write([left])] if offsets_partition is not None else []
        log.commit(
            parts,
            by="a stranger",
            transaction=None,
            remove=lambda file: is_of_night(file) and file.bound("minValues", "audit_id") == 2,
        )
    audited._read = {}


@pytest.mark.parametrize("offsets_partition", one_of(None, 1))
def test_a_missing_newest_state_is_rebuilt_and_no_older_one_is_used(undisturbed, offsets_partition):
    why = WHY_REBUILT[offsets_partition]
    found = nights_and(lambda audited: taken_away(audited, offsets_partition))
    (note,) = (note for note in found.newest.notes or () if "rebuilt" in note)
    assert re.match(f"state rebuilt from history: {why}", note), note
    for name in REPORTED:
        if name not in (CHECKPOINTS, "transaction_markers", "quarantine"):
            assert comparable(found.rows(name)) == comparable(undisturbed.rows(name)), name
