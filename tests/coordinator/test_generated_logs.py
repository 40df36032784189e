"""Generated logs against the state that Kafka's own coordinator classes held after loading them.

`data/generated_logs.zip`: segments that 4.3.1's coordinator shards wrote for random clients, cleaned ones, and
arbitrary orders and foreign bytes; `answers/` has what the classes of each release answered, going on after records
that fail (Scala's loader does not go on: logs that it fails on are only checked for failing).
"""

from __future__ import annotations

import random

import pytest

from kgroups_spark.coordinator.releases import release
from tests.chosen import one_of
from tests.coordinator.generated_logs import JAVA, UNLOADED_AT_THE_END, answers, logs
from tests.coordinator.oracle_answers import differences, replay_all
from tests.coordinator.replay_row import ReplayRow
from tests.twin.shard import Shard


@pytest.mark.parametrize("version", one_of(*JAVA))
def test_java_coordinators_have_the_same_state_after_the_same_failures(version):
    found = []
    for log, answer in answers(version):
        shard = Shard(release(version), answer["partition"])
        failed = replay_all(shard, logs()[log][answer["partition"]])
        found += [f"{log}-{answer['partition']} {line}" for line in differences(answer, shard, failed)]
    assert not found, "\n".join(found[:20])
    assert len(answers(version)) == 79


def test_the_scala_loader_has_the_same_state_or_fails_on_the_same_logs():
    found, loaded = [], 0
    for log, answer in answers("3.9.2"):
        shard = Shard(release("3.9.2"), answer["partition"])
        failed = replay_all(shard, logs()[log][answer["partition"]])
        fails = answer["failed"] and not (answer["failed"]["message"] or "").startswith(UNLOADED_AT_THE_END)
        assert bool(failed) == bool(fails), (log, answer["partition"], failed[:3], answer["failed"])
        if not fails:
            loaded += 1
            found += [f"{log}-{answer['partition']} {line}" for line in differences(answer, shard, None)]
    assert not found, "\n".join(found[:20])
    assert loaded > 50


@pytest.mark.parametrize("version", one_of(*JAVA, "3.9"))
def test_a_replay_from_a_saved_state_equals_an_uninterrupted_one(version):
    for seed, (log, partitions) in enumerate(logs().items()):
        for partition, rows in partitions.items():
            cut = random.Random(-seed).randint(0, len(rows))
            assert outcome(rows, version, cut) == outcome(rows, version), (log, partition, cut)


def outcome(rows: list[ReplayRow], version: str, cut: int | None = None) -> dict:
    """All rows of a shard after the replay, saved and loaded at `cut`."""
    rules = release(version)
    shard = Shard(rules, 0, recording=True)
    replay_all(shard, rows[:cut])
    versions = shard.take_changes()
    if cut is not None:
        shard = Shard.load(rules, 0, list(shard.save()), recording=True)
        replay_all(shard, rows[cut:])
        versions += shard.take_changes()
    return {
        "groups": list(shard.group_rows()),
        "members": without_completed_topics(shard.member_rows()),
        "offsets": list(shard.committed_rows()),
        "pending": list(shard.pending_rows()),
        "transactions": list(shard.open_transaction_rows()),
        "groups_in_transactions": shard.groups_in_transactions(),
        "versions": without_completed_topics(versions),
    }


def without_completed_topics(rows) -> list:
    """Rows of members with partitions by topic id, those of classic groups by name."""
    fields = ("assigned_partitions", "pending_revocation_partitions", "target_partitions")
    return [
        row._replace(**{field: _bare(getattr(row, field), row.member_state is None) for field in fields})
        if hasattr(row, "member_id")
        else row
        for row in rows
    ]


def _bare(partitions, by_name):
    if partitions is None:
        return None
    return sorted((p.topic if by_name else p.topic_id, p.partition, p.assignment_epoch) for p in partitions)
