"""reduce, and its law: replay(reduce(a) + reduce(b)) = replay(a + b), for every release and cut.

Tried on all logs of three records of 23 kinds, and on seeded random ones; generated logs are in test_generated_logs.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from kgroups_spark.coordinator.reduce import reduce
from kgroups_spark.coordinator.releases import release
from kgroups_spark.coordinator.replay_row import ReplayRow
from kgroups_spark.coordinator.shard import Shard
from tests.coordinator.oracle_answers import replay_all
from tests.coordinator.records import Log, classic, epoch, target_epoch

KINDS: list[Callable[[Log], Log]] = [
    lambda log: log.commit(len(log.rows)),
    lambda log: log.commit(len(log.rows), producer=1),
    lambda log: log.tombstone(),
    lambda log: log.end(1, "committed"),
    lambda log: log.end(1, "aborted"),
    lambda log: log.record(2, None),
    lambda log: log.record(2, classic(generation=len(log.rows))),
    lambda log: log.record(6, None),
    lambda log: log.commit(len(log.rows), producer=2),
    lambda log: log.end(2, "committed"),
    lambda log: log.commit(len(log.rows), producer_id=1, producer_epoch=0),
    lambda log: log.tombstone(producer=1),
    lambda log: log.commit(len(log.rows), partition=1, producer=1),
    lambda log: log.record(3, epoch(5)),
    lambda log: log.end(1, None),
    lambda log: log.end(2, "aborted"),
    lambda log: log.append("undecodable", group_id="g", producer_id=1, producer_epoch=0, is_transactional=True),
    lambda log: log.commit(len(log.rows), group="h"),
    lambda log: log.commit(len(log.rows), group="h", producer=1),
    lambda log: log.tombstone(partition=1),
    lambda log: log.commit(len(log.rows), partition=1),
    lambda log: log.commit(len(log.rows), record_type=0, value_version=1),
    lambda log: log.record(6, target_epoch(3)),
]


def rows_of(kinds) -> list[ReplayRow]:
    log = Log("3.9")
    for kind in kinds:
        kind(log)
    return log.rows


def outcome(rows: list[ReplayRow], version: str) -> tuple:
    shard = Shard(release(version), 0, recording=True)
    replay_all(shard, rows)
    sources = (shard.group_rows, shard.member_rows, shard.committed_rows, shard.pending_rows)
    state = [list(source()) for source in (*sources, shard.open_transaction_rows)]
    return state, shard.groups_in_transactions(), shard.take_changes()


def assert_law(rows: list[ReplayRow], version: str) -> None:
    whole = outcome(rows, version)
    for cut in range(len(rows)):
        reduced = reduce(rows[:cut], release(version)) + reduce(rows[cut:], release(version))
        assert outcome(reduced, version) == whole, (cut, [(row.kind, row.producer_id, row.outcome) for row in rows])


@pytest.mark.parametrize("version", ["4.3", "4.0.0", "3.7-java", "3.9"])
def test_law_for_all_short_logs(version):
    for kinds in itertools.product(KINDS[:16], repeat=3):
        assert_law(rows_of(kinds), version)


@pytest.mark.parametrize("version", ["4.3", "4.0.2", "4.0.0", "3.8-java", "3.7-java", "3.9", "3.3", "2.0"])
def test_law_for_random_logs(version):
    choice = random.Random(version)
    for _ in range(150):
        assert_law(rows_of(choice.choices(KINDS, k=choice.randint(4, 20))), version)


@pytest.mark.parametrize("version", ["4.3", "4.0.0", "3.9"])
def test_law_for_long_logs_of_offsets_and_transactions_alone(version):
    choice = random.Random(version)
    for _ in range(60):
        assert_law(rows_of(choice.choices(KINDS[:5] + KINDS[8:10] + KINDS[12:13], k=25)), version)


def kept(log: Log, version: str = "4.3") -> list[tuple[int, str]]:
    return [(row.log_offset, row.kind) for row in reduce(log.rows, release(version))]


def test_of_plain_values_the_last_of_a_slot_stays_and_the_first_without_content():
    log = Log().commit(1).commit(2).commit(3, "u").commit(4).commit(5)
    assert kept(log) == [(0, "keep_group"), (2, "offset_commit"), (4, "offset_commit")]
    assert kept(log, "3.9") == [(0, "offset_commit"), (2, "offset_commit"), (4, "offset_commit")]


def test_a_committed_transaction_becomes_plain_where_its_beginning_is_known():
    log = Log().commit(1, producer=1).end(1, "committed").commit(2, producer=1).commit(3, "u").end(1, "committed")
    first, marker, second, plain = reduce(log.rows, release("4.3"))
    assert (first, marker, plain) == (log.rows[0], log.rows[1], log.rows[3])
    assert second == log.rows[2]._replace(producer_id=-1, producer_epoch=-1, is_transactional=False)


def test_an_aborted_transaction_leaves_the_group():
    log = Log().end(1, "committed").commit(2, producer=1).end(1, "aborted")
    assert kept(log) == [(0, "marker"), (1, "keep_group")]


def test_a_transaction_with_a_tombstone_of_its_slot_stays_whole():
    log = Log().end(1, "committed").commit(2, producer=1).tombstone().end(1, "committed")
    assert [offset for offset, _ in kept(log)] == [0, 1, 2, 3]


def test_a_transaction_with_a_record_without_the_bit_stays_whole():
    log = Log().end(1, "committed").commit(2, producer=1).commit(3, producer_id=1, producer_epoch=0).end(1, "committed")
    assert reduce(log.rows, release("4.3")) == log.rows


def test_tombstones_group_records_and_undecodable_ones_all_stay():
    log = Log().tombstone().tombstone().record(2, None).record(2, None).append("undecodable").append("undecodable")
    assert reduce(log.rows, release("4.3")) == log.rows


def test_what_is_reduced_already_can_be_reduced_again():
    log = Log().commit(1).commit(2).end(1, "committed").commit(3, producer=1).end(1, "committed").commit(4)
    once = reduce(log.rows, release("4.3"))
    assert outcome(reduce(once, release("4.3")), "4.3") == outcome(log.rows, "4.3")
