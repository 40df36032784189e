"""Functions over the current tables: which partition a group belongs to, and what expires for any retention."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from tests.chosen import one_of
from tests.expiry.cases import DAY, R
from tests.expiry.frames import COMMON_NOW, all_passes, clean_up
from tests.lake.table_rows import rows_of as table_rows
from tests.slow_messages import java_hash, offsets_partition
from tests.views.arrow_tables import InSpark, in_duckdb, rows_of

SINCE_70, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def names(count):
    """Names of groups: of any characters, also beyond 16 bits, and the known one whose hash has no positive twin."""
    rng = random.Random(1)
    characters = [(1, 0x80), (0x80, 0xD800), (0xE000, 0x110000)]
    found = ["", "a", "\x00", "e\u0301", "\uffff", "\U0010ffff", "polygenelubricants", "x" * 300]
    while len(found) < count:
        found.append("".join(chr(rng.randrange(*rng.choice(characters))) for _ in range(rng.randrange(1, 12))))
    return found


def groups_of(named, partitions, **columns):
    """Tables in which each group is in its own partition; partition 0 has been read."""
    rows = [{"group_id": name, "offsets_partition": offsets_partition(name, partitions), **columns} for name in named]
    read = [{"offsets_partition": 0}]
    return {
        "groups": table_rows("groups", *rows),
        "audits": table_rows("audits", {"audit_id": 1, "status": "finished", "partitions": read}),
    }


OF_GROUPS = """
  SELECT group_id, java_hash(group_id) AS hash, offsets_partition_of(group_id, 50) AS p,
    offsets_partition_of(group_id) AS q
  FROM groups
"""


def assert_hashed(views, named):
    said = {row["group_id"]: (row["hash"], row["p"], row["q"]) for row in rows_of(views, OF_GROUPS)}
    of_50 = {name: offsets_partition(name, 50) for name in named}
    assert said == {name: (java_hash(name), of_50[name], of_50[name]) for name in named}
    assert rows_of(views, "SELECT offsets_partition_of(NULL, 50) AS p, offsets_partition_count() AS n") == [
        {"p": None, "n": 50}
    ]


def test_a_groups_partition_follows_from_javas_hash():
    named = names(2000)
    assert min(map(java_hash, named)) == -(1 << 31)
    assert_hashed(in_duckdb(groups_of(named, 50)), named)


def count(named, partitions, read=0, **columns):
    tables = groups_of(named, partitions, **columns)
    progress = {"audit_id": 1, "status": "finished", "partitions": [{"offsets_partition": read}]}
    views = in_duckdb(tables | {"audits": table_rows("audits", progress)})
    [row] = rows_of(views, "SELECT offsets_partition_count() AS n")
    return row["n"]


def test_the_number_of_partitions_is_the_only_one_that_fits():
    assert count(names(100), 50) == 50
    assert count(names(100), 1) == 1
    assert count(names(100), 2000) == 2000
    assert count(names(100), 2001) is None
    assert count([], 50) is None
    # 3 fits as 6 does, until partition 5 is read.
    even = [name for name in names(200) if offsets_partition(name, 6) < 3]
    assert [count(even, 6, read) for read in (2, 5)] == [None, 6]


def test_a_misplaced_group_excludes_the_numbers_that_it_fits():
    here = names(100)
    tables = groups_of(here, 50, is_misplaced=False)
    elsewhere = {"group_id": "elsewhere", "offsets_partition": 99 % 50, "is_misplaced": True}
    reported = {**tables, "groups": pa.concat_tables([tables["groups"], table_rows("groups", elsewhere)])}
    query = "SELECT offsets_partition_count() AS n"
    assert rows_of(in_duckdb(reported), query) == [{"n": 50}]
    unknown = reported["groups"].set_column(
        reported["groups"].schema.get_field_index("is_misplaced"),
        reported["groups"].schema.field("is_misplaced"),
        pa.nulls(101, pa.bool_()),
    )
    assert rows_of(in_duckdb({**reported, "groups": unknown}), query) == [{"n": None}]


RELEASES = ["4.3.1", "3.9.2", "2.6.0", "2.1.0", "1.1.1", "0.8.2"]
NOW, PARTITIONS = COMMON_NOW, 40


def micros(time_ms):
    return None if time_ms is None else 1000 * time_ms


def in_micros(row):
    is_time = {name: name.endswith("_timestamp") or name in TIMES for name in row}
    return {name: micros(value) if is_time[name] else value for name, value in row.items()}


def judged(tables, release, retention_ms):
    """The decision on each committed offset by the rules."""
    offsets, _ = clean_up(tables, as_of=NOW, retention_ms=retention_ms, release_version=release)
    return [in_micros(row) for row in offsets]


def in_tables(tables, release):
    """The current tables, with the decisions for retention R."""
    kept = ("offsets_partition", "group_id", "group_type", "state")
    bare = [{name: group[name] for name in kept} for group in tables["groups"]]
    finished = {"audit_id": 1, "status": "finished", "release_version": release}
    return {
        "committed_offsets": table_rows("committed_offsets", *map(in_micros, tables["committed_offsets"])),
        "groups": table_rows("groups", *bare),
        "offset_expiry": table_rows("offset_expiry", *judged(tables, release, R)),
        "audits": table_rows("audits", finished),
    }


def few(release):
    """States that Kafka's classes cleaned up, in some offsets partitions."""
    tables = all_passes(f"kafka-{release if release == '4.3.1' else '3.9.2'}.jsonl.gz")[0]
    return {name: [row for row in rows if row["offsets_partition"] < PARTITIONS] for name, rows in tables.items()}


def as_if_empty(row, now):
    """The decision of a row as if the last member of its group had left `now`."""
    moment = row["expires_at_if_empty"]
    if moment in (None, row["expires_at"]):
        return row
    decision, reason = ("expire", "retention_passed") if moment <= now else ("keep", "within_retention")
    return row | {"expires_at": moment, "decision": decision, "reason": reason}


COLUMNS = (
    "offsets_partition, group_id, topic, partition, committed_offset, log_offset, retention_ms, decision, reason, base"
)
TIMES = ("as_of", "base_timestamp", "expires_at", "expires_at_if_empty")


def expected(tables, release, retention_ms, *, if_empty=False):
    names = COLUMNS.split(", ")
    rows = judged(tables, release, retention_ms)
    if if_empty:
        rows = [as_if_empty(row, micros(NOW)) for row in rows]
    rows = [row for row in rows if row["expires_at"] is not None]
    return sorted((tuple(row[name] for name in [*names, *TIMES]) for row in rows), key=repr)


def said(views, call):
    rows = rows_of(views, f"SELECT {COLUMNS}, {', '.join(TIMES)} FROM expiring({call})")
    for row in rows:
        row |= {name: None if row[name] is None else (row[name] - SINCE_70) // MICROSECOND for name in TIMES}
    return sorted((tuple(row.values()) for row in rows), key=repr)


@pytest.mark.parametrize("release", one_of(*RELEASES))
def test_expiring_offsets_for_any_retention_agree_with_the_rules(release, chosen):
    tables = few(release)
    views = in_duckdb(in_tables(tables, release))
    assert said(views, "") == expected(tables, release, R)
    for days in chosen.some((1, 3, 30), 1):
        assert said(views, f"retention := INTERVAL {days} DAY") == expected(tables, release, days * DAY)
        emptied = expected(tables, release, days * DAY, if_empty=True)
        assert said(views, f"retention := INTERVAL {days} DAY, if_empty := true") == emptied
    assert said(views, "if_empty := true") == expected(tables, release, R, if_empty=True)
    soon = NOW + 2 * DAY
    until = [row for row in expected(tables, release, 3 * DAY) if row[-2] <= soon * 1000]
    assert until
    assert said(views, f"make_timestamptz({soon * 1000}), INTERVAL 3 DAY") == until


@pytest.mark.spark
def test_spark_agrees_with_duckdb(spark, chosen):
    named, tables = names(300), few("4.3.1")
    views = InSpark(spark, groups_of(named, 50))
    assert_hashed(views, named)
    views = InSpark(spark, in_tables(tables, "4.3.1"))
    soon = f"{datetime.fromtimestamp(NOW / 1000 + 2 * 86_400, UTC):%Y-%m-%d %H:%M:%S.%f}Z"
    until = [row for row in expected(tables, "4.3.1", 3 * DAY) if row[-2] <= (NOW + 2 * DAY) * 1000]
    answers = {
        f"TIMESTAMP '{soon}', INTERVAL '3' DAY": until,
        "retention => INTERVAL '3' DAY": expected(tables, "4.3.1", 3 * DAY),
        "": expected(tables, "4.3.1", R),
        "NULL, INTERVAL '259200.000' SECOND, True": expected(tables, "4.3.1", 3 * DAY, if_empty=True),
    }
    for call in chosen.some(answers, 2):
        assert said(views, call) == answers[call], call
