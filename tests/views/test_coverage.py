"""View coverage: the log offset from which the history tables hold every record of a partition."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.chosen import examples
from tests.lake.table_rows import rows_of as table_rows
from tests.views.arrow_tables import in_duckdb, rows_of

LOT = 65_536
TABLES = ("offset_commits", "group_records", "transaction_markers", "quarantine")
QUERY = "SELECT offsets_partition, first_log_offset, complete_from, read_to FROM coverage"


def ledger(*spans):
    """One finished audit for each (offsets_partition, start_offset, end_offset), and one that is running. As each audit
    does, it says how far the other partitions had been read."""
    finished, entries = [], dict[int, dict[str, int]]()
    for audit_id, (number, start, end) in enumerate(spans, 1):
        entries = {each: entry | {"start_offset": entry["end_offset"]} for each, entry in entries.items()}
        entries[number] = {"offsets_partition": number, "start_offset": start, "end_offset": end}
        finished.append({"audit_id": audit_id, "status": "finished", "partitions": list(entries.values())})
    return table_rows("audits", *finished, {"audit_id": len(spans) + 1, "status": "running"})


def records(offsets, partition=0):
    """History with a record at each of the offsets, spread over the four tables."""
    tables = {}
    for number, name in enumerate(TABLES):
        mine = offsets[offsets % len(TABLES) == number]
        row = table_rows(name, {"offsets_partition": partition, "reason": "truncated"} if name == "quarantine" else {})
        rows = row.take(pa.array(np.zeros(len(mine), np.int64)))
        at = row.schema.get_field_index("log_offset")
        tables[name] = rows.set_column(at, row.schema.field(at), pa.array(mine, pa.int64()))
    return tables


def complete_from(offsets, begins_at, read_to):
    """The slow, obvious way."""
    place = read_to
    while place > begins_at and place - 1 in offsets:
        place -= 1
    return place


# Whole lots, their borders, and holes in them.
places = st.one_of(st.integers(0, 3 * LOT), st.sampled_from([0, LOT - 1, LOT, LOT + 1, 2 * LOT - 1, 2 * LOT, 3 * LOT]))


@examples(5)
@given(begins_at=places, length=places, holes=st.lists(st.tuples(places, st.integers(1, 2 * LOT)), max_size=3))
@example(begins_at=0, length=3 * LOT, holes=[(LOT, LOT)])
@example(begins_at=0, length=3 * LOT, holes=[(2 * LOT, LOT)])
@example(begins_at=5, length=2 * LOT, holes=[(2 * LOT - 1, 1)])
@example(begins_at=0, length=3 * LOT, holes=[(0, LOT + 7)])
def test_history_is_complete_after_the_last_hole(begins_at, length, holes):
    read_to = begins_at + length
    there = np.ones(length, bool)
    for start, size in holes:
        there[start : start + size] = False
    offsets = np.flatnonzero(there) + begins_at
    tables = {**records(offsets), "audits": ledger((0, begins_at, read_to))}
    assert rows_of(in_duckdb(tables), QUERY) == [
        {
            "offsets_partition": 0,
            "first_log_offset": int(offsets[0]) if len(offsets) else None,
            "complete_from": complete_from(set(offsets.tolist()), begins_at, read_to),
            "read_to": read_to,
        }
    ]


def covered(quarantine):
    """complete_from of a log of 10 offsets whose fifth is not in the other tables."""
    there = records(np.array([0, 1, 2, 3, 5, 6, 7, 8, 9]))
    rows = [{"log_offset": 4, "record_count": 1, **row} for row in quarantine]
    extra = table_rows("quarantine", *rows) if rows else there["quarantine"].slice(0, 0)
    tables = {**there, "quarantine": pa.concat_tables([there["quarantine"], extra]), "audits": ledger((0, 0, 10))}
    return int(rows_of(in_duckdb(tables), QUERY)[0]["complete_from"])


@pytest.mark.parametrize(
    ("quarantine", "expected"),
    [
        ([], 5),
        ([{"reason": "unknown_record_type"}], 0),
        ([{"reason": "corrupt_batch"}], 5),
        ([{"reason": "load_would_fail", "record_count": 0}], 5),
        # Decoded later: the record itself is in its table, or was and has been reduced.
        ([{"reason": "unknown_record_type", "resolved_by": 3}], 5),
    ],
)
def test_quarantined_records_are_not_missing_unless_they_are_corrupt(quarantine, expected):
    assert covered(quarantine) == expected


def test_a_record_that_a_load_would_fail_at_counts_once():
    there = records(np.arange(10))
    failed = table_rows("quarantine", {"reason": "load_would_fail", "log_offset": 7})
    # Counted twice it would fill the hole at 2.
    there["transaction_markers"] = there["transaction_markers"].slice(1)
    tables = {**there, "quarantine": pa.concat_tables([there["quarantine"], failed]), "audits": ledger((0, 0, 10))}
    assert rows_of(in_duckdb(tables), QUERY)[0]["complete_from"] == 3


def test_partitions_are_kept_apart():
    parts = [records(np.arange(10, 30)), records(np.array([40, 41, 43, 44]), 1), records(np.array([], np.int64), 2)]
    there = {name: pa.concat_tables([part[name] for part in parts]) for name in TABLES}
    for name in TABLES:
        column = there[name].schema.get_field_index("offsets_partition")
        numbers = [n for n, part in enumerate(parts) for _ in range(part[name].num_rows)]
        there[name] = there[name].set_column(column, there[name].schema.field(column), pa.array(numbers, pa.int32()))
    tables = {**there, "audits": ledger((0, 10, 20), (0, 20, 30), (1, 40, 45), (2, 7, 7))}
    expected = [(0, 10, 10, 30), (1, 40, 43, 45), (2, None, 7, 7)]
    assert sorted(tuple(row.values()) for row in rows_of(in_duckdb(tables), QUERY)) == expected
