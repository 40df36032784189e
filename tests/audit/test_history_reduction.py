"""Old history reduced: each rule by rows, and all of them on random logs against a slow twin."""

from __future__ import annotations

import random

import pytest

from kgroups_spark.history.horizons import horizons_frame
from kgroups_spark.history.reduction import (
    reduced_group_records,
    reduced_markers,
    reduced_offset_commits,
    reduced_quarantine,
    reduced_topic_offsets,
    reduced_traffic,
    reduced_versions,
)
from kgroups_spark.tables.schemas import TABLES
from tests.tables.table_rows import MOMENT, rows_of

pytestmark = pytest.mark.spark


def frame(spark, name, *given):
    return spark.createDataFrame(rows_of(name, *given), TABLES[name].schema)


def offsets(rows):
    return sorted(row.log_offset for row in rows.select("log_offset").collect())


def commit(log_offset, group_id="g", *, partition=0, value=True, producer=None, transactional=None, **more):
    """A record of offset_commits; of a transaction if it has a producer and nothing else is said."""
    return {
        "log_offset": log_offset,
        "group_id": group_id,
        "topic": "t",
        "partition": partition,
        "record_type": 1,
        "value_version": 3 if value else None,
        "committed_offset": 7 if value else None,
        "producer_id": producer,
        "is_transactional": producer is not None if transactional is None else transactional,
        **more,
    }


def marker(log_offset, producer, start, outcome="committed"):
    return {
        "log_offset": log_offset,
        "producer_id": producer,
        "transaction_start_offset": start,
        "outcome": outcome,
        "control_type": 1,
    }


def kept(spark, commits, markers=(), horizon=100):
    of = horizons_frame(spark, {0: horizon})
    reduced = reduced_offset_commits(
        frame(spark, "offset_commits", *commits), frame(spark, "transaction_markers", *markers), of
    )
    return offsets(reduced)


def test_of_each_key_the_last_record_below_the_horizon_stays_tombstones_too(spark):
    commits = [commit(1), commit(2), commit(3, "h"), commit(4, "h", value=False), commit(5, partition=1)]
    assert kept(spark, commits) == [2, 4, 5]
    # Both types of key are keys of their own, as they are to the cleaner; what is above H takes nothing away.
    assert kept(spark, [commit(1), commit(2, record_type=0), commit(3), commit(100)]) == [2, 3, 100]
    assert kept(spark, commits, horizon=2) == [1, 2, 3, 4, 5]


def test_values_of_aborted_transactions_go_and_hide_nothing(spark):
    commits = [commit(1), commit(2, producer=9), commit(3, "h", value=False, producer=9)]
    assert kept(spark, commits, [marker(4, 9, 2, "aborted")]) == [1, 3]
    assert kept(spark, commits, [marker(4, 9, 2)]) == [2, 3]
    # What was read together with its marker says so itself.
    told = [commit(1), commit(2, producer=9, outcome="aborted", marker_offset=4)]
    assert kept(spark, told) == [1]


def test_a_transaction_that_is_open_at_the_horizon_stays_and_hides_nothing(spark):
    commits = [commit(1), commit(2, producer=9), commit(3, producer=9), commit(4, producer=8)]
    assert kept(spark, commits, [marker(100, 9, 2, "aborted"), marker(5, 8, 4)]) == [2, 3, 4]
    assert kept(spark, commits[:3]) == [1, 2, 3]


def test_a_producer_without_the_transactional_bit_waits_for_a_marker_and_stays(spark):
    commits = [commit(1), commit(2, producer=9, transactional=False), commit(3)]
    assert kept(spark, commits) == [2, 3]


def test_markers_stay_while_a_record_of_their_transaction_does(spark):
    markers = [marker(3, 9, 1), marker(6, 9, 5), marker(7, 8, 4), marker(8, None, None), marker(9, 7, None, None)]
    empty = frame(spark, "group_records")
    reduced = reduced_markers(
        frame(spark, "transaction_markers", *markers, marker(100, 9, 99)),
        frame(spark, "offset_commits", commit(5, producer=9), commit(101)),
        empty,
        frame(spark, "quarantine", {"log_offset": 4, "producer_id": 8, "record_count": 1}),
        horizons_frame(spark, {0: 100}),
    )
    assert offsets(reduced) == [6, 7, 8, 9, 100]


def test_group_records_versions_and_quarantine_keep_the_last_of_each_key(spark):
    of, no_markers = horizons_frame(spark, {0: 100}), frame(spark, "transaction_markers")
    records = [
        {"log_offset": 1, "record_type": 2},
        {"log_offset": 2, "record_type": 2},
        {"log_offset": 3, "record_type": 5, "member_id": "m"},
        {"log_offset": 4, "record_type": 5, "member_id": "n"},
        {"log_offset": 5, "record_type": 16, "regular_expression": "a*"},
        {"log_offset": 6, "record_type": 16, "regular_expression": "b*"},
        {"log_offset": 7, "record_type": 2, "producer_id": 9, "is_transactional": True},
    ]
    assert offsets(reduced_group_records(frame(spark, "group_records", *records), no_markers, of)) == [2, 3, 4, 5, 6, 7]
    versions = [{"log_offset": 1}, {"log_offset": 2, "is_removed": True}, {"log_offset": 3, "group_id": "h"}]
    assert offsets(reduced_versions(frame(spark, "group_versions", *versions), of)) == [2, 3]
    members = [{"log_offset": 1, "member_id": "m"}, {"log_offset": 1, "member_id": "n"}, {"log_offset": 2}]
    assert offsets(reduced_versions(frame(spark, "group_member_versions", *members), of)) == [1, 1, 2]
    unknown = {"reason": "unknown_record_type", "raw_key": b"k", "record_count": 1}
    quarantine = [
        {"log_offset": 1, **unknown},
        {"log_offset": 2, **unknown, "resolved_by": 5},
        {"log_offset": 3, **unknown},
        {"log_offset": 4, **unknown, "raw_key": b"l"},
        {"log_offset": 5, "reason": "corrupt_batch"},
        {"log_offset": 6, "reason": "corrupt_batch"},
    ]
    assert offsets(reduced_quarantine(frame(spark, "quarantine", *quarantine), of)) == [2, 3, 4, 5, 6]


def test_traffic_goes_by_whole_hours(spark):
    hours = [MOMENT.replace(hour=hour, minute=0, second=0, microsecond=0) for hour in (4, 5, 6)]
    rows = frame(spark, "group_traffic", *({"hour": hour} for hour in hours), {"hour": None})
    left = reduced_traffic(rows, int(hours[2].timestamp() * 1000)).select("hour").toArrow()["hour"].to_pylist()
    assert sorted(left, key=str) == [hours[2], None]


def test_of_the_ends_of_topics_those_seen_last_stay_however_old(spark):
    hours = {1: 4, 2: 5, 3: 6}
    seen = [
        {"audit_id": audit_id, "partition": partition, "seen_at": MOMENT.replace(hour=hour)}
        for audit_id, hour in hours.items()
        for partition in (0, 1)
    ]
    rows = frame(spark, "topic_offsets", *seen)

    def left(moment):
        kept = reduced_topic_offsets(rows, int(moment.timestamp() * 1000), newest_audit_id=3)
        return sorted((row.audit_id, row.partition) for row in kept.collect())

    assert left(MOMENT.replace(hour=5)) == [(2, 0), (2, 1), (3, 0), (3, 1)]
    assert left(MOMENT.replace(hour=9)) == [(3, 0), (3, 1)]
    assert len(left(MOMENT.replace(hour=4))) == 6


def random_log(rng):
    """Commits and markers of one partition; a few keys, plain and transactional, some transactions open."""
    commits, markers, began = [], [], {}
    for log_offset in range(rng.randint(10, 80)):
        producer = rng.choice([None, None, 1, 2])
        if producer in began and rng.random() < 0.4:
            markers.append(marker(log_offset, producer, began.pop(producer), rng.choice(["committed", "aborted"])))
            continue
        if producer is not None:
            began.setdefault(producer, log_offset)
        commits.append(commit(log_offset, rng.choice("gh"), value=rng.random() < 0.8, producer=producer))
    return commits, markers


def twin(commits, markers, horizon):
    """The same by hand: offsets of commits and of markers that stay."""

    def end_of(row):
        ends = [m for m in markers if m["producer_id"] == row["producer_id"] and m["log_offset"] > row["log_offset"]]
        return min(ends, key=lambda m: m["log_offset"], default=None)

    stay, last = set(), {}
    for row in commits:
        end = end_of(row) if row["is_transactional"] else None
        is_open = row["is_transactional"] and (end is None or end["log_offset"] >= horizon)
        if row["log_offset"] >= horizon or is_open:
            stay.add(row["log_offset"])
        elif not (end is not None and end["outcome"] == "aborted" and row["value_version"] is not None):
            last[row["group_id"]] = row["log_offset"]
    stay |= set(last.values())
    ends = {
        end["log_offset"]
        for row in commits
        if row["log_offset"] in stay and row["is_transactional"]
        if (end := end_of(row))
    }
    return sorted(stay), sorted(
        m["log_offset"] for m in markers if m["log_offset"] >= horizon or m["log_offset"] in ends
    )


def test_random_logs_are_reduced_as_by_hand_and_a_second_time_to_the_same(spark):
    rng = random.Random(4)
    all_commits, all_markers, expected = [], [], ({}, {})
    of = {}
    for partition in range(40):
        commits, markers = random_log(rng)
        of[partition] = rng.randint(0, 80)
        for which, offsets_kept in enumerate(twin(commits, markers, of[partition])):
            expected[which][partition] = offsets_kept
        all_commits += [{**row, "offsets_partition": partition} for row in commits]
        all_markers += [{**row, "offsets_partition": partition} for row in markers]
    horizons = horizons_frame(spark, of)
    commits, markers = frame(spark, "offset_commits", *all_commits), frame(spark, "transaction_markers", *all_markers)
    nothing = frame(spark, "group_records"), frame(spark, "quarantine")
    for _ in range(2):
        commits = spark.createDataFrame(reduced_offset_commits(commits, markers, horizons).toArrow(), commits.schema)
        assert by_partition(commits) == {p: o for p, o in expected[0].items() if o}
        markers = spark.createDataFrame(reduced_markers(markers, commits, *nothing, horizons).toArrow(), markers.schema)
        assert by_partition(markers) == {p: o for p, o in expected[1].items() if o}


def by_partition(rows):
    found = {}
    for row in rows.select("offsets_partition", "log_offset").collect():
        found.setdefault(row.offsets_partition, []).append(row.log_offset)
    return {partition: sorted(of_one) for partition, of_one in found.items()}
