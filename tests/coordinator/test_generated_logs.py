"""Generated logs against the state that Kafka's own coordinator classes held after loading them.

`data/generated_logs.zip`: segments that 4.3.1's coordinator shards wrote for random clients, cleaned ones, and
arbitrary orders and foreign bytes; `answers/` has what the classes of each release answered, going on after records
that fail (Scala's loader does not go on: logs that it fails on are only checked for failing).
"""

from __future__ import annotations

import pytest

from kgroups_spark.coordinator.releases import release
from tests.coordinator.generated_logs import JAVA, UNLOADED_AT_THE_END, answers, logs
from tests.coordinator.oracle_answers import differences, replay_all
from tests.twin.shard import Shard


@pytest.mark.parametrize("version", JAVA)
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
