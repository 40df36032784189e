"""Clean-ups of Kafka itself: which tombstones one pass wrote, given the groups and offsets it had.

tests/data/expiry/kafka-<version>.jsonl.gz: Kafka's own coordinator classes of that version loaded generated logs
(ordinary, compacted, and odd ones) and cleaned up at instants on both sides of boundaries. broker-4.3.1.jsonl.gz: a
live broker that checked every two seconds; `now` is the log time of its tombstones. Tables hold what the classes
answered after the load; those of 4.4.0 are our own rows, which equalled the answers when they were recorded. Eight
of its partitions hold committed offsets of share groups: there Kafka's clean-up threw and removed nothing.
Its cases `described ...` have a topology description plugin configured, and streams groups whose records say that it
holds something.
"""

import pytest

from tests.expiry.frames import COMMON_NOW, FILES, all_passes, clean_up


def release_of(name):
    return name.split("-")[1].removesuffix(".jsonl.gz")


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
