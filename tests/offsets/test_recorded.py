"""The columns over recorded logs, against the objects and against what Kafka's own classes answered."""

from __future__ import annotations

from kgroups_spark.coordinator.releases import release
from kgroups_spark.replay import rows as replay_rows
from tests.chosen import Chosen
from tests.coordinator.generated_logs import JAVA, answers, logs
from tests.coordinator.replay_row import ReplayRow
from tests.offsets.replayed_offsets import replayed

Json = dict


def test_offsets_equal_those_of_kafkas_classes(chosen):
    """79 partitions of generated logs, adversarial ones among them."""
    for version in chosen.some([*JAVA, "3.9.2"], 1):
        compare(version, chosen)


def compare(version: str, chosen: Chosen) -> None:
    rules, compared = release(version), 0
    of_version = answers(version)
    for number in chosen.some(range(len(of_version)), 25):
        log, answer = of_version[number]
        if rules.coordinator == "scala" and answer["failed"]:
            continue
        rows = usable(logs()[log][answer["partition"]])
        found = replayed(rows, rules)
        committed = replay_rows.committed_rows(
            found, [(0, g["group"]) for g in answer["groups"]], audit_id=1
        ).to_pylist()
        pending = replay_rows.pending_rows(found, audit_id=1).to_pylist()
        assert {_said(each) for each in answer["offsets"]} == {_ours(row) for row in committed}, log
        assert {(e["producerId"], *_said(e)) for e in answer["pending"]} == {
            (row["producer_id"], *_ours(row)) for row in pending
        }, log
        compared += len(committed)
    assert compared > (1000 if chosen.every else 0)


def usable(rows: list[ReplayRow]) -> list[ReplayRow]:
    """Rows that history keeps; of undecodable ones those of transactions, without a producer's epoch."""
    return [
        row._replace(producer_epoch=-1) if row.kind in ("undecodable", "group_record") else row
        for row in rows
        if row.kind != "undecodable" or row.is_transactional
    ]


def _said(offset: Json) -> tuple:
    place = (offset["group"], offset["topic"], offset["partition"], offset["offset"], offset.get("topicId"))
    return (*place, offset["leaderEpoch"], offset["metadata"], offset.get("orphan", False))


def _ours(row: Json) -> tuple:
    place = (row["group_id"], row["topic"], row["partition"], row["committed_offset"], row["topic_id"])
    return (*place, row["leader_epoch"], row["metadata"], row.get("is_orphan", False))
