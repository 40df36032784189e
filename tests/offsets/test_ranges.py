"""Ranges of slots, in comparison with tuples in Python."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.dataset as ds

from kgroups_spark.offsets.columns import (
    FIRST,
    SLOT,
    TEXT,
    Border,
    SlotRange,
    from_border,
    ranges_between,
    ranges_of,
)

# In the order of their UTF-8 bytes; one is in UTF-16 in another order.
TEXTS = ["", "\0", "a", "a\0", "ab", "b", "é", "\uffff", "\U0001f600"]


def slots(rnd: random.Random, count: int) -> list[tuple[str, str, int]]:
    return [(rnd.choice(TEXTS), rnd.choice(TEXTS), rnd.choice([0, 1, 7])) for _ in range(count)]


def table(rows: list[tuple[str, str, int]], text: pa.DataType) -> pa.Table:
    columns = [pa.array(list(each)) for each in zip(*rows, strict=True)]
    return pa.table([columns[0].cast(text), columns[1].cast(text), columns[2].cast(pa.int32())], list(SLOT))


def some_range(rnd: random.Random) -> SlotRange:
    some = [Border(*slot) for slot in slots(rnd, 2)] + [Border(rnd.choice(TEXTS))]
    low, high = sorted(rnd.sample(some, 2))
    return SlotRange(rnd.choice([low, FIRST]), rnd.choice([high, None]))


def has(wanted: SlotRange, slot: tuple[str, str, int]) -> bool:
    return slot >= wanted.low and (wanted.high is None or slot < wanted.high)


def test_rows_of_a_range_in_tables_and_in_files():
    rnd = random.Random(11)
    for _ in range(100):
        rows, wanted = slots(rnd, 30), some_range(rnd)
        expected = [slot for slot in rows if has(wanted, slot)]
        of_range = wanted.of(pa.concat_tables([table(rows[:7], TEXT), table(rows[7:], TEXT)]))
        assert [tuple(row.values()) for row in of_range.to_pylist()] == expected
        assert [slot for slot in rows if wanted.has(Border(*slot))] == expected
        in_files = from_border(wanted.low)
        if wanted.high is not None:
            in_files &= ~from_border(wanted.high)
        for text in (pa.string(), TEXT):
            found = ds.dataset(table(rows, text)).to_table(filter=in_files).to_pylist()
            assert [tuple(row.values()) for row in found] == expected


def test_ranges_cover_all_slots():
    f, b = Border("f", "t", 1), Border("b")
    assert ranges_between([f, b]) == [SlotRange(high=b), SlotRange(b, f), SlotRange(f)]
    assert ranges_between([]) == [SlotRange()]


def test_large_groups_are_cut_between_their_slots():
    """Each range has at most as many rows as wanted, if no slot has more. Only large groups are read twice."""
    rnd = random.Random(13)
    rows = [("large", f"t{rnd.randrange(3)}", rnd.randrange(10)) for _ in range(300)]
    rows += [("large\0", "t", 0)] * 5 + [(f"small {rnd.randrange(20)}", "t", 0) for _ in range(300)]
    rnd.shuffle(rows)
    whole, read = pa.concat_tables([table(rows[:200], TEXT), table(rows[200:], TEXT)]), []

    def reader(wanted: SlotRange, columns: list[str]):
        read.append((wanted.of(whole).num_rows, columns))
        return wanted.of(whole).select(columns)

    ranges, large = ranges_of(reader, 40, 150)
    assert read == [(605, ["group_id"]), (300, SLOT)]
    for most, some in ((40, ranges), (150, large)):
        found = [[slot for slot in rows if has(each, slot)] for each in some]
        assert sorted(slot for each in found for slot in each) == sorted(rows)
        assert max(map(len, found)) <= most
        assert len(some) <= 2 * len(rows) // most
    assert {each.low for each in large} <= {each.low for each in ranges}
