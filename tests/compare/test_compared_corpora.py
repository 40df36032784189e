"""Logs of real brokers by two releases: the side of the recorded broker's own release equals its answers."""

from __future__ import annotations

import io
from functools import cache

import pytest

from kgroups_spark.audit.differences import COMMITTED, GROUP, LOAD, Difference, differences, reason
from kgroups_spark.coordinator.releases import release
from tests.coordinator.loaded_shards import as_loaded, failures_at
from tests.coordinator.log_rows import replay_rows
from tests.coordinator.oracle_answers import replay_all
from tests.logs.corpora import ANSWERS
from tests.logs.log_files import read_zip, segments_of
from tests.recorded_logs import CORPORA
from tests.twin.shard import Shard


@cache
def found(corpus: str, a: str, b: str) -> list[Difference]:
    files = read_zip(CORPORA)[corpus]
    reported = []
    for number, paths in segments_of(files).items():
        rows = list(replay_rows(io.BytesIO(files[path]) for path in paths))
        sides = []
        for version in (a, b):
            shard = Shard(release(version), number)
            sides.append(as_loaded(shard, failures_at(replay_all(shard, rows))))
        reported += differences(*sides)
    return reported


@pytest.mark.parametrize(
    ("corpus", "other", "count"),
    [("scala-3.9-reloaded", "4.3", 3), ("mixed-upgrade", "3.9", 4), ("transactions-4.3", "3.9", 4)],
)
def test_the_side_of_the_recorded_broker_equals_its_answers(corpus, other, count):
    answer = ANSWERS[corpus]
    reported = found(corpus, answer["release"], other)
    served = {(g, t, p): str(offset) for g, rows in answer["committed"].items() for t, p, offset, *_ in rows}
    offsets = [each for each in reported if each.difference == COMMITTED]
    assert [each.value_a for each in offsets] == [served.get((e.group_id, e.topic, e.partition)) for e in offsets]
    assert [each.what for each in offsets] == ["committed_offset"] * count
    groups = [each for each in reported if each.difference == GROUP and each.what == "group"]
    assert groups
    assert all((each.value_a is not None) == (each.group_id in answer["groups"]) for each in groups)


def test_a_reloaded_scala_broker_brings_back_offsets_that_were_deleted_under_a_transaction():
    """Semantics section 12.3: 3.9.2 reloaded {0,1,2,3}, 4.0.2 {2,3}."""
    offsets = [e for e in found("scala-3.9-reloaded", "4.0", "3.9") if e.difference == COMMITTED]
    assert [(e.partition, e.value_a) for e in offsets if e.group_id == "ledger-146142"] == [(0, None), (1, None)]


@pytest.mark.parametrize(
    ("corpus", "known"), [("kip848-4.3", "consumer"), ("share-4.3", "share"), ("streams-4.3", "streams")]
)
def test_3_9_knows_groups_of_newer_protocols_by_their_offsets_alone(corpus, known):
    groups = {name for name, group in ANSWERS[corpus]["groups"].items() if group["group_type"] == known}
    reported = found(corpus, "4.3", "3.9")
    lost = {each.group_id: each for each in reported if reason(each, release("4.3"), release("3.9"))}
    assert lost.keys() == groups
    with_offsets = {name for name in groups if ANSWERS[corpus]["committed"].get(name)}
    assert {name for name, each in lost.items() if each.value_b == "classic, Empty, members: 0"} == with_offsets
    assert not [each for each in reported if each.difference == LOAD]


def test_4_0_does_not_load_partitions_with_share_groups_of_4_3():
    reported = found("share-4.3", "4.3", "4.0")
    unserved = {each.group_id for each in reported if each.value_b == "unavailable: NOT_COORDINATOR"}
    groups = ANSWERS["share-4.3"]["groups"]
    assert unserved >= {name for name, group in groups.items() if group["group_type"] == "share"}
    assert unserved
