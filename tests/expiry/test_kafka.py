"""Clean-ups of Kafka itself: which tombstones one pass wrote, given the groups and offsets it had.

tests/data/expiry/kafka-<version>.jsonl.gz: Kafka's own coordinator classes of that version loaded generated logs
(ordinary, compacted, and odd ones) and cleaned up at instants on both sides of boundaries. broker-4.3.1.jsonl.gz: a
live broker that checked every two seconds; `now` is the log time of its tombstones. Tables hold what the classes
answered after the load; those of 4.4.0 are our own rows, which equalled the answers when they were recorded. Eight
of its partitions hold committed offsets of share groups: there Kafka's clean-up threw and removed nothing.
Its cases `described ...` have a topology description plugin configured, and streams groups whose records say that it
holds something.
"""

import gzip
import json
from functools import cache
from pathlib import Path

import pytest

from tests.expiry.frames import clean_up

DATA = Path(__file__).parents[1] / "data" / "expiry"
FILES = sorted(path.name for path in DATA.glob("*.jsonl.gz"))
TIMES = ("commit_timestamp", "expire_timestamp", "current_state_timestamp")
FURTHEST_MS = 9_223_372_036_854_775  # what a TIMESTAMP holds, on either side
COMMON_NOW = 1_700_000_000_000


@cache
def recorded(name):
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def release_of(name):
    return name.split("-")[1].removesuffix(".jsonl.gz")


def expected(judged_pass):
    """(offsets, groups) that got a tombstone."""
    return {tuple(row) for row in judged_pass["offsets"]}, {tuple(row) for row in judged_pass["groups"]}


def moved(row, number, by_ms):
    """The row in an offsets partition of its own, its times moved: a pass at another instant is then one at
    COMMON_NOW."""
    times = {
        name: max(-FURTHEST_MS, min(FURTHEST_MS, row[name] + by_ms)) for name in TIMES if row.get(name) is not None
    }
    return {**row, **times, "offsets_partition": number}


def all_passes(name):
    """Every pass of a file in one set of tables, each in its own offsets partition, with what Kafka removed in all."""
    tables = {"groups": [], "group_members": [], "committed_offsets": [], "pending_offsets": []}
    offsets, groups = set(), set()
    passes = [(line, judged_pass) for line in recorded(name) for judged_pass in line["passes"]]
    for number, (line, judged_pass) in enumerate(passes):
        for table, rows in line["tables"].items():
            tables[table] += [moved(row, number, COMMON_NOW - judged_pass["now"]) for row in rows]
        removed_offsets, removed_groups = expected(judged_pass)
        offsets |= {(number, *row[1:]) for row in removed_offsets}
        groups |= {(number, *row[1:]) for row in removed_groups}
    (retention_ms,) = {judged_pass["retention_ms"] for _, judged_pass in passes}
    return tables, retention_ms, offsets, groups


@pytest.mark.parametrize("name", FILES)
def test_the_rules_remove_what_kafka_removed(name):
    tables, retention_ms, offsets, groups = all_passes(name)
    offset_rows, group_rows = clean_up(
        tables, as_of=COMMON_NOW, retention_ms=retention_ms, release_version=release_of(name)
    )
    expire = [row for row in offset_rows if row["decision"] == "expire"]
    slot = ("offsets_partition", "group_id", "topic", "partition")
    assert {tuple(row[column] for column in slot) for row in expire} == offsets
    assert len(expire) == len(offsets) > 0
    delete = [row for row in group_rows if row["decision"] == "delete" and row["writes_tombstone"]]
    assert {(row["offsets_partition"], row["group_id"]) for row in delete} == groups
    assert len(delete) == len(groups) > 0


def test_recorded_passes_are_there():
    assert [release_of(name) for name in FILES] == ["4.3.1", "3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.3.1", "4.4.0"]
