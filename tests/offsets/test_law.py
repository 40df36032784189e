"""A log replayed in parts equals one replay of the whole: cut anywhere, in any ranges of slots, for every release."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from kgroups_spark.coordinator import events
from kgroups_spark.coordinator.releases import RELEASES, release
from kgroups_spark.offsets import columns, removals
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
from kgroups_spark.offsets.replay import ALL_SLOTS, replay_offsets
from kgroups_spark.offsets.state import OffsetState
from kgroups_spark.replay.state import LogState, loaded, saved
from tests.chosen import some_of
from tests.offsets.log_tables import history_of
from tests.offsets.random_logs import BORDERS, random_log
from tests.replay.replayed_shards import CHANGES, Shard, in_order, night
from tests.replay.replayed_shards import replayed as tables_and_state

# One release of each set of rules that concern offsets.
DIFFERENT = ("4.4", "4.1", "4.0", "4.0.0", "3.8-java", "3.7-java", "3.9", "3.4.0", "2.0", "0.11", "0.8")


def assert_cut_anywhere(chosen, log, version, ranges=ALL_SLOTS):
    """Two nights together equal one that has all of the log. No cut is within a batch, or between records of one time,
    because these are one act of the coordinator."""
    (whole, end), how = tables_and_state(log, night(version)), night(version)
    cuts = [cut for cut in range(len(log) + 1) if is_between_acts(log[:cut], log[cut:])]
    for cut in chosen.some(cuts, 5):
        head, state = tables_and_state(log[:cut], how, ranges=ranges)
        tail, state = tables_and_state(log[cut:], how, loaded(saved(state), release(version)), ranges)
        both = {name: in_order(name, [*head.get(name, ()), *tail.get(name, ())]) for name in CHANGES}
        assert {name: rows for name, rows in (tail | both).items() if rows} == whole, cut
        assert entries(state) == entries(end), cut


def is_between_acts(before, after):
    """Records without a time do not end an act."""
    if not before or not after:
        return True
    is_one_batch = before[-1].batch_offset is not None and before[-1].batch_offset == after[0].batch_offset
    times = [row.log_timestamp for row in before if row.log_timestamp is not None]
    return not is_one_batch and after[0].log_timestamp not in (None, *times[-1:])


def entries(state):
    return sorted(map(str, saved(state).to_pylist()))


def check_logs(chosen, version, logs, every, check):
    """Checks so many random logs; in a soak `every` log."""
    for seed in range(every) if chosen.every else [chosen.random.randrange(1 << 32) for _ in range(logs)]:
        try:
            check(random_log(seed), version)
        except AssertionError as error:
            raise AssertionError(f"release {version}, seed {seed}") from error


def releases(count):
    """So many of DIFFERENT; in a soak all releases."""
    others = [pytest.param(each, marks=pytest.mark.soak) for each in RELEASES if each not in DIFFERENT]
    return pytest.mark.parametrize("version", [*some_of(count, *DIFFERENT), *others])


@releases(2)
def test_a_log_may_be_cut_anywhere(version, chosen):
    def check(log, version):
        assert_cut_anywhere(chosen, log[:25], version)

    check_logs(chosen, version, 1, 20, check)


@releases(2)
def test_the_newest_versions_are_the_current_rows(version, chosen):
    """After each record. Versions have no topology and no user data; their log offset is that of the last change."""

    def check(log, version):
        shard = Shard(night(version))
        for row in log:
            shard.replay([row])
            tables = shard.tables
            groups = {each.group_id: each for each in tables.groups("group_versions")}
            members = {(each.group_id, each.member_id): each for each in tables.members("group_member_versions")}
            assert {each[1:16] for each in tables.groups()} == {
                each[1:16] for each in groups.values() if not each.is_removed
            }
            assert [each[1:-5] for each in tables.members()] == [
                each[1:-5] for _, each in sorted(members.items()) if not each.is_removed
            ]

    check_logs(chosen, version, 1, 20, check)


@releases(2)
def test_ranges_of_slots_equal_all_slots_at_once(version, chosen):
    def check(log, version):
        ranges = ranges_between(chosen.one(BORDERS))
        assert tables_of(log, version, ranges) == tables_of(log, version)
        if chosen.takes(0.1):
            assert_cut_anywhere(chosen, log[:20], version, ranges)

    check_logs(chosen, version, 1, 20, check)


def tables_of(log, version, ranges=ALL_SLOTS):
    return tables_and_state(log, night(version), ranges=ranges)[0]


@releases(2)
def test_the_oldest_removals_are_forgotten_first(version, chosen, monkeypatch):
    monkeypatch.setattr(removals, "REMEMBERED", 2)
    monkeypatch.setattr(events, "REMEMBERED", 2)

    def check(log, version):
        ranges = ranges_between([Border("g"), Border("g", "t", 1), Border("h")])
        assert tables_of(log, version, ranges) == tables_of(log, version)
        if chosen.takes(0.1):
            assert_cut_anywhere(chosen, log[:20], version)

    check_logs(chosen, version, 1, 20, check)


@releases(3)
def test_log_offsets_of_any_size_make_keys(version, chosen, monkeypatch):
    """Where very many slots over a very long log would make keys too large, the log offsets are numbered first."""

    def check(log, version):
        expected = tables_of(log, version)
        with monkeypatch.context() as context:
            context.setattr(columns, "LARGEST_KEY", 1)
            assert tables_of(log, version) == expected

    check_logs(chosen, version, 1, 20, check)


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_history_come_in_any_order_and_any_parts(seed):
    log, rules, shuffled = random_log(seed + 100, records=200), release("4.3"), random.Random(seed)
    history = history_of(log)
    rows = history.commits(SlotRange())
    order = list(range(len(rows)))
    shuffled.shuffle(order)
    parts = np.array_split(np.array(order), 4)
    mixed = pa.concat_tables([dictionaries(rows.take(pa.array(part))) for part in parts])
    found = replay_offsets(OffsetState.empty(), history._replace(commits=lambda _: mixed), rules)
    whole = replay_offsets(OffsetState.empty(), history, rules)
    assert entries(LogState(found.state)) == entries(LogState(whole.state))
    assert found.moves.to_pylist() == whole.moves.to_pylist()


def dictionaries(rows):
    """Texts as Parquet gives them, each part with a dictionary of its own."""
    for name in ("group_id", "topic", "topic_id"):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, rows.column(name).dictionary_encode())
    return rows


def test_an_empty_log():
    assert tables_of([], "4.3") == {}


# Ranges of slots, in comparison with tuples in Python.


# In the order of their UTF-8 bytes; one is in UTF-16 in another order.
TEXTS = ["", "\0", "a", "a\0", "ab", "b", "é", "\uffff", "\U0001f600"]


def slots(rnd, count):
    return [(rnd.choice(TEXTS), rnd.choice(TEXTS), rnd.choice([0, 1, 7])) for _ in range(count)]


def table(rows, text):
    columns = [pa.array(list(each)) for each in zip(*rows, strict=True)]
    return pa.table([columns[0].cast(text), columns[1].cast(text), columns[2].cast(pa.int32())], list(SLOT))


def some_range(rnd):
    some = [Border(*slot) for slot in slots(rnd, 2)] + [Border(rnd.choice(TEXTS))]
    low, high = sorted(rnd.sample(some, 2))
    return SlotRange(rnd.choice([low, FIRST]), rnd.choice([high, None]))


def has(wanted, slot):
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

    def reader(wanted, columns):
        rows = wanted.of(whole).select(columns)
        read.append((rows.num_rows, columns))
        return [rows.slice(0, 0), rows.slice(0, 250), rows.slice(250)]

    ranges, large = ranges_of({FIRST: 605}, reader, 40, 150)
    assert read == [(605, ["group_id"]), (300, SLOT)]
    for most, some in ((40, ranges), (150, large)):
        found = [[slot for slot in rows if has(each, slot)] for each in some]
        assert sorted(slot for each in found for slot in each) == sorted(rows)
        assert max(map(len, found)) <= most
        assert len(some) <= 2 * len(rows) // most
    assert {each.low for each in large} <= {each.low for each in ranges}
