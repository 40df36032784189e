"""Share partitions, their batches and transactional ids as of a moment: always those of a replay of the log up to
it."""

from __future__ import annotations

import io
import random
from itertools import pairwise

import pytest

from kgroups_spark.coordinator.releases import release
from kgroups_spark.messages.coordinator_records import COORDINATOR_LOGS, CoordinatorRecord, CoordinatorRecordDecoder
from kgroups_spark.records.segment import read_segment
from kgroups_spark.replay.state_logs import ClusterFact, Settings, StateReplay, state_record
from kgroups_spark.report.figures import query
from tests.chosen import some_of
from tests.lake.table_rows import rows_of as table_rows
from tests.nights.state_nights import NOW, StateNights, ends_of_batches
from tests.recorded_state_logs import segments
from tests.records.build import batch
from tests.share_coordinator import histories as shares
from tests.transaction_coordinator import histories as transactions
from tests.views import fixtures
from tests.views.arrow_tables import InSpark, rows_of, with_known_history
from tests.views.state_lakes import OF_LOG, SHARE, TRANSACTION, in_order, lake_of

PARTITION = 1
FACTS = (
    ClusterFact("broker_config", "group.share.delivery.count.limit", "3", "set", broker=1),
    ClusterFact("broker_config", "transactional.id.expiration.ms", "86400000", "default", broker=1),
    ClusterFact("group_config", "share.delivery.count.limit", "2", "set", group_id="g"),
    ClusterFact("group_config", None, None, group_id="h"),
)
SETTINGS = Settings.of(FACTS)


def share_log(seed):
    """A generated log, a batch a record: some with the same time, some with a step back, some without a time."""
    records = shares.history(seed, length=60, tidy=seed % 2 == 0)
    return with_times(seed, [(shares.key_bytes(one), shares.value_bytes(one)) for one in records])


def transaction_log(seed):
    records = transactions.history(seed, length=60)
    return with_times(seed, [(transactions.key_bytes(name), value) for name, _, value in records])


def with_times(seed, records):
    rng, now, log = random.Random(seed), 1_000_000, b""
    for offset, record in enumerate(records):
        now += rng.choice([0, 1, 5, 5, -3])
        at = now if rng.random() < 0.9 else -1
        log += batch(offset, [record], base_timestamp=at, max_timestamp=at)
    return log


LOGS = [
    *((SHARE, f"generated-{seed}") for seed in range(12)),
    *((TRANSACTION, f"generated-{seed}") for seed in range(12)),
    (SHARE, "share-4.4"),
    (TRANSACTION, "transactions-4.4"),
]
SOME_LOGS = [*some_of(1, *LOGS[:12]), *some_of(1, *LOGS[12:24]), *some_of(1, *LOGS[24:])]


def logs_of(topic, name):
    """By partition the bytes."""
    if not name.startswith("generated"):
        return segments(name, topic)
    seed = int(name.removeprefix("generated-"))
    return {PARTITION: share_log(seed) if topic == SHARE else transaction_log(seed)}


def audited(topic, partition, log, nights=3):
    found, ends = StateNights(topic, partition=partition, settings=SETTINGS), ends_of_batches(log)
    for night in range(nights):
        found.audit(log[: ends[(len(ends) - 1) * (night + 1) // nights]])
    return found


def replayed(topic, partition, records, moment):
    """The tables of the log before its first record with a later time."""
    shard = StateReplay(COORDINATOR_LOGS[topic], release("4.4"), partition)
    for log_time, record in records:
        if log_time is not None and log_time > moment:
            break
        if record is not None:
            shard.replay(record)
    found = {name: rows.to_pylist() for name, rows in shard.tables(1, SETTINGS)}
    return {name: found[name] for name in OF_LOG[topic]}


def state_records(topic, log):
    """(log time, record; None: it cannot be decoded) in log order."""
    decoder = CoordinatorRecordDecoder(COORDINATOR_LOGS[topic])
    for chunk in read_segment(io.BytesIO(log)):
        for row in range(len(chunk)):
            found = decoder.decode(chunk.key(row), chunk.value(row))
            at = None if chunk.timestamp[row] < 0 else int(chunk.timestamp[row])
            is_sound = isinstance(found, CoordinatorRecord)
            yield at, state_record(int(chunk.offset[row]), at, found) if is_sound else None


def as_of(views, name, moment):
    return rows_of(views, f"SELECT * FROM {name}_as_of(make_timestamptz({1000 * moment}))")


def as_of_all(views, name, moments):
    """By moment the rows, in one query."""
    asked = f"(SELECT unnest({moments}) AS moment), {name}_as_of(make_timestamptz(1000 * moment)) AS state"
    found = {moment: [] for moment in moments}
    for row in rows_of(views, f"SELECT moment, state.* FROM {asked}"):
        found[row.pop("moment")].append(row)
    return found


@pytest.mark.parametrize("log", SOME_LOGS)
def test_the_state_as_of_any_moment_equals_a_replay_up_to_it(log):
    topic, name = log
    logs = logs_of(topic, name)
    nights = [audited(topic, partition, log) for partition, log in logs.items()]
    views = with_known_history(lake_of(*nights, facts=FACTS))
    records = {partition: list(state_records(topic, log)) for partition, log in logs.items()}
    times = {log_time for some in records.values() for log_time, _ in some} - {None}
    moments = sorted(times | {min(times) - 1})
    moments = moments[:: -(-len(moments) // 20)]
    then = {moment: [replayed(topic, number, some, moment) for number, some in records.items()] for moment in moments}
    for table in OF_LOG[topic]:
        said, reported = as_of_all(views, table, moments), 0
        for moment in moments:
            expected = [row for tables in then[moment] for row in tables[table]]
            assert in_order(said[moment]) == in_order(expected), (table, moment)
            reported += len(expected)
        assert reported > 20
    for table in OF_LOG[topic]:
        now = [row for each in nights for row in each.tables.get(table, ())]
        assert in_order(rows_of(views, f"SELECT * FROM {table}_as_of(NULL)")) == in_order(now)


def test_entries_that_the_log_had_lost_when_it_was_read_again_are_gone():
    """From the log offset on before which it was found."""
    records = shares.history(3, length=40)
    log = with_times(3, [(shares.key_bytes(one), shares.value_bytes(one)) for one in records])
    nights = StateNights(SHARE, partition=PARTITION)
    nights.audit(log)
    key = ("café", "_____________________w", 7)
    batches = zip(records, pairwise([0, *ends_of_batches(log)]), strict=True)
    left = b"".join(log[begin:end] for one, (begin, end) in batches if one[1:4] != key)
    nights.audit(left, again=True)
    assert nights.reads[-1].gone == 1
    later = shares.Record(1, *key, shares.update([shares.batch(1, 2)], 0))
    left += batch(40, [(shares.key_bytes(records[0]), b"")], base_timestamp=9_000_002)
    left += batch(41, [(shares.key_bytes(later), shares.value_bytes(later))], base_timestamp=9_000_005)
    nights.audit(left)
    views = with_known_history(lake_of(nights))
    for name in OF_LOG[SHARE]:
        assert in_order(rows_of(views, f"SELECT * FROM {name}_as_of(NULL)")) == in_order(nights.tables[name])
    seen = {
        moment: [row["log_offset"] for row in as_of(views, "share_partitions", moment) if row["group_id"] == key[0]]
        for moment in (1_000_030, 9_000_001, 9_000_005)
    }
    then = replayed(SHARE, PARTITION, list(state_records(SHARE, log)), 1_000_030)["share_partitions"]
    (before,) = [row["log_offset"] for row in then if row["group_id"] == key[0]]
    # As of the second the log ends at 40, where it had been read to.
    assert seen == {1_000_030: [before], 9_000_001: [], 9_000_005: [41]}


def test_the_entries_of_a_log_that_begins_after_the_records_read_are_gone_from_there_on():
    def snapshots(offset, second, *keys):
        records = [shares.Record(0, *key, shares.snapshot(start=second)) for key in keys]
        pairs = [(shares.key_bytes(one), shares.value_bytes(one)) for one in records]
        return batch(offset, pairs, base_timestamp=1000 * second, max_timestamp=1000 * second)

    nights = StateNights(SHARE, partition=PARTITION)
    nights.audit(snapshots(0, 1, *shares.KEYS))
    for second, keys in ((2, shares.KEYS[:2]), (3, shares.KEYS[:1])):
        nights.audit(snapshots(10 * second, second, *keys), starts_again=True)
    views = with_known_history(lake_of(nights, facts=FACTS))
    moments = {moment: as_of(views, "share_partitions", 1000 * moment) for moment in (1, 2, 3)}
    assert {moment: [row["start_offset"] for row in rows] for moment, rows in moments.items()} == {
        1: [1, 1, 1],
        2: [2, 2],
        3: [3],
    }


def test_batches_from_the_lowest_offset_to_the_greatest_are_combined():
    """A client of the share coordinator writes any offsets."""
    lowest, greatest = -(2**63), 2**63 - 1
    batches = [shares.batch(lowest, -1, 0, 1), shares.batch(-5, greatest - 1, 0, 2)]
    records = [shares.Record(0, *shares.KEYS[0], shares.snapshot(start=-1))]
    records += [shares.Record(1, *shares.KEYS[0], shares.update([each])) for each in batches]
    log = with_times(1, [(shares.key_bytes(one), shares.value_bytes(one)) for one in records])
    nights = audited(SHARE, PARTITION, log)
    found = rows_of(with_known_history(lake_of(nights, facts=FACTS)), "SELECT * FROM share_batches_as_of(NULL)")
    assert in_order(found) == in_order(nights.tables["share_batches"])
    assert sorted((row["first_offset"], row["last_offset"]) for row in found) == [(lowest, -6), (-5, greatest - 1)]


@pytest.mark.in_turn("a moment of state logs")
def test_both_engines_agree(spark, chosen):
    nights = [audited(SHARE, 1, share_log(1)), audited(SHARE, 2, share_log(4))]
    nights += [audited(TRANSACTION, 1, transaction_log(2)), audited(TRANSACTION, 2, transaction_log(5))]
    pending = {"producer_id": 5, "log_offset": 3, "committed_offset": 1, "is_transactional": True}
    listed = fixtures.tables_of("share_partitions_as_of")["group_records"]
    tables = lake_of(*nights, facts=FACTS) | {
        "group_records": listed,
        "offset_commits": table_rows("offset_commits", pending),
    }
    by_duckdb, by_spark = with_known_history(tables), InSpark(spark, tables)
    moments = ("make_timestamptz(1000060000)", "make_timestamptz(1000120000)", "NULL")
    names = [*(f"{name}_as_of" for name in NOW), "share_records_as_of", "state_log_ends_as_of", "state_known_as_of"]
    for name in chosen.some([*names, "pending_offsets_as_of"], 1):
        for moment in chosen.some(moments, 1):
            text = f"SELECT * FROM {name}({moment})"
            expected = rows_of(by_duckdb, text)
            assert rows_of(by_spark, text.replace("make_timestamptz", "timestamp_micros")) == expected, name
            assert expected or name == "state_known_as_of"
            if name in [f"{each}_as_of" for each in NOW]:
                assert {[*row][-1] for row in expected} == {"known"}
    of_report = ("share_partitions", "share_near_limit", "transactional_states", "named_transactions")
    asked = ["SELECT * FROM all_events", "SELECT * FROM transactional_producers", *map(query, of_report)]
    for text in chosen.some([*asked, query("aborted_by_coordinator")], 1):
        expected = rows_of(by_duckdb, text)
        assert rows_of(by_spark, text) == expected, text
        assert expected or "state_events" in text
