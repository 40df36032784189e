"""Generated logs against the state that Kafka's own coordinator classes held after loading them.

`data/generated_logs.zip`: segments that 4.3.1's coordinator shards wrote for random clients, cleaned ones, and
arbitrary orders and foreign bytes; `answers/` has what the classes of each release answered, going on behind records
that fail (Scala's loader does not go on: logs that it fails on are only checked for failing).
"""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from kgroups_spark.coordinator.releases import release
from kgroups_spark.coordinator.shard import Shard
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import read_segment
from tests.coordinator.log_rows import replay_rows
from tests.coordinator.oracle_answers import differences, replay_all
from tests.coordinator.replay_row import ReplayRow

LOGS = Path(__file__).parent / "data" / "generated_logs.zip"
MORE_ANSWERS = {version: LOGS.with_name(f"answers_{version}.zip") for version in ("4.0.0", "4.4.0")}
JAVA = ("4.4.0", "4.3.1", "4.2.1", "4.1.2", "4.0.2", "4.0.0")
UNLOADED_AT_THE_END = "Unexpected unload of active group"  # thrown when everything is in the cache (Scala)


@cache
def logs() -> dict[str, dict[int, list[ReplayRow]]]:
    """Rows by log and partition."""
    found: dict[str, dict[int, list[ReplayRow]]] = {}
    with zipfile.ZipFile(LOGS) as archive:
        names = [name.split("/") for name in archive.namelist() if name.startswith("logs/")]
        for log, folder in sorted({(name[1], name[2]) for name in names}):
            segments = sorted("/".join(name) for name in names if name[1:3] == [log, folder])
            rows = list(replay_rows(io.BytesIO(archive.read(segment)) for segment in segments))
            found.setdefault(log, {})[int(folder.rsplit("-", 1)[1])] = rows
    return found


def raw_records() -> Iterator[tuple[bytes, bytes | None]]:
    """Key and value of every record of types 2 to 23 of the logs."""
    with zipfile.ZipFile(LOGS) as archive:
        for name in sorted(name for name in archive.namelist() if name.startswith("logs/")):
            for records in read_segment(io.BytesIO(archive.read(name))):
                assert isinstance(records, RecordColumns)
                for i in range(len(records)):
                    key = records.key(i)
                    if key is not None and 2 <= int.from_bytes(key[:2], "big") < 24:
                        yield key, records.value(i)


@cache
def answers(version: str) -> list[tuple[str, dict]]:
    """(log, partition's answer) of a release."""
    with zipfile.ZipFile(MORE_ANSWERS.get(version, LOGS)) as archive:
        by_log = json.loads(archive.read(f"answers/{version}.json"))
    return [(log, answer) for log, partitions in by_log.items() for answer in partitions]


@pytest.mark.parametrize("version", JAVA)
def test_java_coordinators_hold_the_same_after_the_same_failures(version):
    found = []
    for log, answer in answers(version):
        shard = Shard(release(version), answer["partition"])
        failed = replay_all(shard, logs()[log][answer["partition"]])
        found += [f"{log}-{answer['partition']} {line}" for line in differences(answer, shard, failed)]
    assert not found, "\n".join(found[:20])
    assert len(answers(version)) == 79


def test_the_scala_loader_holds_the_same_or_fails_where_we_say_so():
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


@pytest.mark.parametrize("version", [*JAVA, "3.9"])
def test_a_saved_and_loaded_state_goes_on_as_if_nothing_happened(version):
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
