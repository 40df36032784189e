"""View coverage: the log offset from which the history tables hold every record of a partition (also coverage.sql)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tests.chosen import examples
from tests.lake.table_rows import rows_of as table_rows
from tests.views.arrow_tables import in_duckdb, rows_of

LOT = 65_536
TABLES = ("offset_commits", "group_records", "transaction_markers", "quarantine")
QUERY = "SELECT offsets_partition, first_log_offset, complete_from, read_to FROM coverage"


def records(offsets):
    """History with a record at each of the offsets, spread over the four tables."""
    tables = {}
    for number, name in enumerate(TABLES):
        mine = offsets[offsets % len(TABLES) == number]
        row = table_rows(name, {"reason": "truncated"} if name == "quarantine" else {})
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
    read = {"offsets_partition": 0, "start_offset": begins_at, "end_offset": read_to}
    ledger = table_rows("audits", {"audit_id": 1, "status": "finished", "partitions": [read]})
    tables = {**records(offsets), "audits": ledger}
    assert rows_of(in_duckdb(tables), QUERY) == [
        {
            "offsets_partition": 0,
            "first_log_offset": int(offsets[0]) if len(offsets) else None,
            "complete_from": complete_from(set(offsets.tolist()), begins_at, read_to),
            "read_to": read_to,
        }
    ]
