"""Ranges of slots, in comparison with tuples in Python."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from kgroups_spark.offsets.columns import (
    SLOT,
    TEXT,
    Border,
    SlotRange,
    from_border,
    of_group,
    ranges_between,
    ranges_of,
)

# In the order of their UTF-8 bytes; one is in UTF-16 in another order.
TEXTS = ["", "\0", "a", "a\0", "ab", "b", "é", "\uffff", "\U0001f600"]
SCHEMAS = [pa.string(), TEXT]


def slots(rnd: random.Random, count: int) -> list[tuple[str, str, int]]:
    return [(rnd.choice(TEXTS), rnd.choice(TEXTS), rnd.choice([0, 1, 7])) for _ in range(count)]


def table(rows: list[tuple[str, str, int]], text: pa.DataType) -> pa.Table:
    columns = [pa.array(list(each)) for each in zip(*rows, strict=True)]
    return pa.table([columns[0].cast(text), columns[1].cast(text), columns[2].cast(pa.int32())], list(SLOT))


def some_range(rnd: random.Random) -> SlotRange:
    some = [Border(*slot) for slot in slots(rnd, 2)] + [Border(rnd.choice(TEXTS))]
    low, high = sorted(rnd.sample(some, 2))
    return SlotRange(rnd.choice([low, None]), rnd.choice([high, None]))


def has(wanted: SlotRange, slot: tuple[str, str, int]) -> bool:
    return (wanted.low is None or slot >= wanted.low) and (wanted.high is None or slot < wanted.high)


@pytest.mark.parametrize("text", SCHEMAS, ids=str)
def test_rows_of_a_range_in_tables_and_in_files(text):
    rnd = random.Random(11)
    for _ in range(100):
        rows, wanted = slots(rnd, 30), some_range(rnd)
        parts = [table(rows[:7], text), table(rows[7:], text)]
        expected = [slot for slot in rows if has(wanted, slot)]
        of_range = wanted.of(pa.concat_tables(parts))
        assert [tuple(row.values()) for row in of_range.to_pylist()] == expected
        assert [slot for slot in rows if wanted.has(Border(*slot))] == expected
        in_files = ds.scalar(True)
        if wanted.low is not None:
            in_files &= from_border(wanted.low)
        if wanted.high is not None:
            in_files &= ~from_border(wanted.high)
        found = ds.dataset(pa.concat_tables(parts)).to_table(filter=in_files).to_pylist()
        assert [tuple(row.values()) for row in found] == expected


@pytest.mark.parametrize("text", SCHEMAS, ids=str)
def test_a_row_without_a_group_is_in_no_bounded_range(text):
    rows = pa.table([pa.array([None, "b"]).cast(text), pa.array(["t", "t"]), pa.array([0, 0], pa.int32())], list(SLOT))
    assert [len(SlotRange(*each).of(rows)) for each in ((None, Border("c")), (Border("a"), None))] == [1, 1]


def test_a_group_is_a_range():
    assert of_group("a").of(table([("a", "", 0), ("a\0", "", 0), ("a", "z", 9), ("ab", "", 0)], TEXT)).num_rows == 2


def test_ranges_cover_all_slots():
    f, b = Border("f", "t", 1), Border("b")
    assert ranges_between([f, b]) == [SlotRange(None, b), SlotRange(b, f), SlotRange(f, None)]
    assert ranges_between([]) == [SlotRange()]


@pytest.mark.parametrize("text", SCHEMAS, ids=str)
def test_large_groups_are_cut_between_their_slots(text):
    """Each range has at most as many rows as wanted, if no slot has more. Only large groups are read twice."""
    rnd = random.Random(13)
    rows = [("large", f"t{rnd.randrange(3)}", rnd.randrange(10)) for _ in range(300)]
    rows += [(f"small {rnd.randrange(20)}", "t", 0) for _ in range(300)]
    rnd.shuffle(rows)
    parts, read = [table(rows[:200], text), table(rows[200:], text)], []

    def reader(wanted: SlotRange, columns: list[str]):
        read.append((wanted, tuple(columns)))
        return (wanted.of(part).select(columns) for part in parts)

    ranges = ranges_of(reader, 40)
    assert read == [(SlotRange(), ("group_id",)), (of_group("large"), SLOT)]
    found = [[slot for slot in rows if has(each, slot)] for each in ranges]
    assert sorted(slot for some in found for slot in some) == sorted(rows)
    assert max(map(len, found)) <= 40
    assert len(ranges) <= 30
