"""Offsets partitions that are replayed together give the rows and states that each gives alone."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from kgroups_spark.coordinator import events
from kgroups_spark.coordinator.groups import Groups
from kgroups_spark.coordinator.releases import release
from kgroups_spark.errors import KgroupsError
from kgroups_spark.offsets import removals
from kgroups_spark.offsets.columns import JoinedLog
from kgroups_spark.replay.shard import ShardReplay
from kgroups_spark.replay.stages import no_cycle_collector
from kgroups_spark.replay.state import ENTRIES, loaded, saved
from kgroups_spark.tables.rows import constant, no_rows, with_columns
from tests.chosen import one_of
from tests.coordinator.log_rows import OffsetAndMetadata, ReplayRow
from tests.offsets.log_tables import history_tables, shard_history
from tests.offsets.random_logs import random_log
from tests.replay.replayed_shards import RELEASES, night
from tests.replay.replayed_shards import replayed as replayed_whole

Logs = Mapping[int, Sequence[ReplayRow]]
# All log offsets of random logs are below.
END = 1 << 41


def replayed(logs, version, state):
    """The rows of all tables, as text; and the state as entries."""
    tables = []
    for number, rows in logs.items():
        found = history_tables(rows)
        tables.append([with_columns(t, offsets_partition=constant(number, len(t), pa.int32())) for t in found])
    log = JoinedLog.over(list(logs), dict.fromkeys(logs, END))
    history = shard_history(map(pa.concat_tables, zip(*tables, strict=True)), log=log)
    replay = ShardReplay(night(version), loaded(state, release(version), log), history)
    made = Counter(f"{name} {row}" for name, rows in replay.outputs() for row in rows.to_pylist())
    return made, saved(replay.state)


def in_nights(logs, version, cuts):
    """The same of the nights that end at these shares of each log, and the last state."""
    state, made = no_rows(ENTRIES), Counter[str]()
    for start, end in zip([0.0, *cuts], [*cuts, 1.0], strict=True):
        some = {n: rows[round(start * len(rows)) : round(end * len(rows))] for n, rows in logs.items()}
        reported, state = replayed(some, version, state)
        made += reported
    return made, sorted(map(str, state.to_pylist()))


@pytest.mark.parametrize("remembered", [65536, 2])
def test_partitions_replayed_together_equal_each_alone(remembered, chosen, monkeypatch):
    """They have the same groups, topics and producers."""
    monkeypatch.setattr(events, "REMEMBERED", remembered)
    monkeypatch.setattr(removals, "REMEMBERED", remembered)
    for version in chosen.some(RELEASES, 1):
        for _ in range(60 if chosen.every else 4):
            seeds = [chosen.random.randrange(1 << 32) for _ in range(chosen.random.randint(2, 5))]
            cuts = sorted(chosen.random.random() for _ in range(chosen.random.randrange(3)))
            logs = {3 + 4 * number: random_log(seed) for number, seed in enumerate(seeds)}
            made, state = in_nights(logs, version, cuts)
            alone = [in_nights({number: log}, version, cuts) for number, log in logs.items()]
            why = (version, seeds, cuts)
            assert made == sum((rows for rows, _ in alone), Counter()), why
            assert state == sorted(entry for _, entries in alone for entry in entries), why


@pytest.mark.parametrize("version", one_of("4.3", "4.0.0", "2.8"))
@pytest.mark.parametrize("groups", [("a", "g", "gé", "z"), ("g",)])
def test_the_same_log_twice_is_one_log_after_the_other(groups, version):
    """Its last group, topic and producer are the first ones of the next partition."""
    rows = [row for seed in range(25) for row in random_log(seed) if row.kind == "marker" or row.group_id in groups]
    log = [row._replace(log_offset=at, batch_offset=None) for at, row in enumerate(rows)]
    made, state = in_nights({0: log, 1: log}, version, [0.5])
    alone = [in_nights({number: log}, version, [0.5]) for number in (0, 1)]
    assert made == alone[0][0] + alone[1][0]
    assert state == sorted([*alone[0][1], *alone[1][1]])


def test_offsets_that_no_broker_writes_are_refused():
    assert len(JoinedLog.over([1, 2], {1: 1 << 61})) == 2
    with pytest.raises(KgroupsError, match=r"partition 1 ends at log offset .* --partition"):
        JoinedLog.over([1, 2, 3], {1: (1 << 62) - 9, 2: 10})


# The replay of a shard, beside the law of tests/offsets/test_law.py.


def test_a_tombstone_of_the_last_pending_offset_is_an_act_of_its_own_batch():
    """Also if the batch before it has the same time (Scala coordinator)."""

    def record(log_offset, topic, commit=None, **of_transaction):
        facts = {"record_type": 1, "group_id": "a", "topic": topic, "partition": 0, "batch_offset": log_offset}
        return ReplayRow(log_offset, 1_700_000_000_000, "offset_commit", commit=commit, **facts, **of_transaction)

    in_transaction = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True}
    never_due = OffsetAndMetadata(1, None, "", 1_700_000_000_000, 1 << 50, None, 1)
    log = [
        record(0, "u", never_due),
        record(1, "t", OffsetAndMetadata(5, None, "", 1_600_000_000_000, None, None, 0), **in_transaction),
        record(2, "u"),
        record(3, "t", **in_transaction),
    ]
    found, _ = replayed_whole(log, night("2.8"))
    assert [(row["event"], row["cause"]) for row in found["group_events"]][-1] == ("group_removed", "expired")


def test_a_replayed_shard_is_freed_without_the_cycle_collector(chosen):
    """Tasks run without it: reference cycles would stay until the last shard of the task."""
    log = random_log(chosen.random.randrange(1 << 32), records=200)
    gc.collect()
    with no_cycle_collector():
        replayed_whole(log, night(chosen.one(RELEASES)))
        assert [each for each in gc.get_objects() if type(each) in (Groups, ShardReplay)] == []
