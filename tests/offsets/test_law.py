"""Columns and groups equal a shard of objects, record by record: for every release, every cut, any ranges of slots."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kgroups_spark.coordinator import events
from kgroups_spark.coordinator.releases import RELEASES, Release, release
from kgroups_spark.offsets import columns, removals
from kgroups_spark.offsets.columns import Border, SlotRange, ranges_between
from kgroups_spark.offsets.replay import ALL_SLOTS, ReplayedOffsets, replay_offsets
from kgroups_spark.offsets.state import OffsetState
from kgroups_spark.replay import rows as replay_rows
from tests.chosen import Chosen, some_of
from tests.coordinator.records import Log, X, Y
from tests.coordinator.replay_row import ReplayRow
from tests.offsets.log_tables import history_of
from tests.offsets.random_logs import BORDERS, random_log
from tests.offsets.replayed_offsets import Row, replayed, state_rows, state_tables, without_slots
from tests.replay.replayed_shards import assert_as_objects

# One release of each set of rules that concern offsets.
DIFFERENT = ("4.4", "4.1", "4.0", "4.0.0", "3.8-java", "3.7-java", "3.9", "3.4.0", "2.0", "0.11", "0.8")


def assert_cut_anywhere(chosen: Chosen, rows: Sequence[ReplayRow], rules: Release, ranges=ALL_SLOTS) -> None:
    """Two replays, of the log's head and of its tail, together equal one replay of the whole log."""
    whole = replayed(rows, rules)
    for cut in chosen.some(range(len(rows) + 1), 5):
        head = replayed(rows[:cut], rules, ranges=ranges)
        tail = replayed(rows[cut:], rules, saved_and_read(head.state), ranges)
        assert state_rows(tail.state) == state_rows(whole.state), cut
        for name in ("moves", "tombstones", "unreadable"):
            one, two, both = (without_slots(getattr(each, name)) for each in (head, tail, whole))
            assert one + two == both, (name, cut)
        assert ended_of(head, rows[:cut]) + ended_of(tail, rows[cut:]) == ended_of(whole, rows), cut


def ended_of(found: ReplayedOffsets, rows: Sequence[ReplayRow]) -> list[Row]:
    return replay_rows.ended_columns(found.transactions, history_of(rows).markers).to_pylist()


def saved_and_read(state: OffsetState) -> OffsetState:
    """The state as files give it back."""
    return OffsetState(*(_read(_written(table)) for table in state_tables(state)))


def _written(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.unify_dictionaries())
    return sink.getvalue()


def _read(data: bytes) -> pa.Table:
    with pa.ipc.open_file(io.BytesIO(data)) as reader:
        return reader.read_all()


def check_logs(chosen: Chosen, version: str, logs: int, every: int, check: Callable[..., None]) -> None:
    """Checks so many random logs; in a soak `every` log."""
    for seed in range(every) if chosen.every else [chosen.random.randrange(1 << 32) for _ in range(logs)]:
        try:
            check(random_log(seed), version)
        except AssertionError as error:
            raise AssertionError(f"release {version}, seed {seed}") from error


def releases(count: int) -> pytest.MarkDecorator:
    """So many of DIFFERENT; in a soak all releases."""
    others = [pytest.param(each, marks=pytest.mark.soak) for each in RELEASES if each not in DIFFERENT]
    return pytest.mark.parametrize("version", [*some_of(count, *DIFFERENT), *others])


@releases(5)
def test_columns_equal_objects(version, chosen):
    check_logs(chosen, version, 4, 150, assert_as_objects)


@releases(2)
def test_a_log_may_be_cut_anywhere(version, chosen):
    def check(log: list[ReplayRow], version: str) -> None:
        assert_cut_anywhere(chosen, log[:25], release(version))

    check_logs(chosen, version, 1, 20, check)


@releases(2)
def test_ranges_of_slots_equal_all_slots_at_once(version, chosen):
    def check(log: list[ReplayRow], version: str) -> None:
        ranges = ranges_between(chosen.one(BORDERS))
        assert_as_objects(log, version, ranges)
        if chosen.takes(0.1):
            assert_cut_anywhere(chosen, log[:20], release(version), ranges)

    check_logs(chosen, version, 1, 20, check)


@releases(2)
def test_the_oldest_removals_are_forgotten_first(version, chosen, monkeypatch):
    monkeypatch.setattr(removals, "REMEMBERED", 2)
    monkeypatch.setattr(events, "REMEMBERED", 2)

    def check(log: list[ReplayRow], version: str) -> None:
        assert_as_objects(log, version)
        if chosen.takes(0.1):
            assert_as_objects(log, version, ranges_between([Border("g"), Border("g", "t", 1), Border("h")]))
            assert_cut_anywhere(chosen, log[:20], release(version))

    check_logs(chosen, version, 1, 20, check)


@releases(3)
def test_log_offsets_of_any_size_make_keys(version, chosen, monkeypatch):
    """Where very many slots over a very long log would make keys too large, the log offsets are numbered first."""
    monkeypatch.setattr(columns, "LARGEST_KEY", 1)
    check_logs(chosen, version, 1, 20, assert_as_objects)


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_history_come_in_any_order_and_any_parts(seed):
    log, rules, shuffled = random_log(seed + 100, records=200), release("4.3"), random.Random(seed)
    history = history_of(log)
    rows = history.commits(SlotRange())
    order = list(range(len(rows)))
    shuffled.shuffle(order)
    parts = np.array_split(np.array(order), 4)
    mixed = pa.concat_tables([dictionaries(rows.take(pa.array(part))) for part in parts])
    found = replay_offsets(OffsetState.empty(), replace(history, commits=lambda _: mixed), rules)
    whole = replay_offsets(OffsetState.empty(), history, rules)
    assert state_rows(found.state) == state_rows(whole.state)
    assert found.moves.to_pylist() == whole.moves.to_pylist()


def dictionaries(rows: pa.Table) -> pa.Table:
    """Texts as Parquet gives them, each part with a dictionary of its own."""
    for name in ("group_id", "topic", "topic_id"):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, rows.column(name).dictionary_encode())
    return rows


def test_a_topic_that_comes_again_under_another_id():
    log = Log().commit(5, topic_id=X, value_version=4).commit(9, topic_id=X, value_version=4)
    log.commit(7, topic_id=X, value_version=4).commit(8, topic_id=Y, value_version=4).tombstone().commit(3)
    assert_as_objects(log.rows, "4.4")


def test_an_empty_log():
    assert_as_objects([], "4.3")
    assert [len(table) for table in state_tables(replayed([], release("4.3")).state)] == [0, 0, 0, 0]
