"""Nights replayed from history, over recorded and generated logs, write what audits write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kgroups_spark.audit.work import known_topics
from kgroups_spark.coordinator.releases import release
from kgroups_spark.replay.groups import ShardHistory
from kgroups_spark.replay.shard import Night, ShardReplay
from kgroups_spark.replay.state import ShardState, loaded, saved
from kgroups_spark.tables.schemas import TABLES
from tests.logs.log_files import Files, random_cuts, read_zip, segments_of
from tests.nights.decoded import Decoded
from tests.nights.nights_here import How
from tests.nights.reported_tables import unordered
from tests.offsets.night_history import decoded_nights, ends_of_nights, history, transactional_garbage
from tests.recorded_logs import CORPORA
from tests.replay.state_entries import entries
from tests.twin.object_nights import ObjectTables, by_objects

GENERATED = Path(__file__).parents[1] / "coordinator" / "data" / "generated_logs.zip"
WEEK = 7 * 86_400_000
LOG = ("offset_commits", "group_records", "transaction_markers", "quarantine")
BY_REPLAY = ("group_versions", "group_member_versions", "group_events", "transaction_markers")
CURRENT = ("groups", "group_members", "committed_offsets", "pending_offsets", "open_transactions")
STATES_OF_GROUPS = ("group", "removed")
Row = dict[str, Any]


def assert_nights(files: Files, version: str, nights: list[Decoded], audited: ObjectTables) -> None:
    """Each night replayed from its history and the state of the night before."""
    for partition in segments_of(files):
        garbage = transactional_garbage(files, partition)
        state, found = ShardState(), {name: [] for name in (*BY_REPLAY, *CURRENT, "quarantine")}
        for audit_id, decoded in enumerate(nights, start=1):
            log = [history(decoded, name, partition, garbage) for name in LOG]
            night = Night(audit_id, version, None, known_topics(audited.topic_names()))
            replay = ShardReplay(partition, night, state, ShardHistory.of_tables(*log))
            for name in CURRENT:
                found[name] = []
            for name, rows in replay.outputs():
                found[name] += rows.to_pylist(maps_as_pydicts="strict")
            kept = saved(replay.state)
            state = loaded(kept, release(version))
        for name in (*BY_REPLAY, *CURRENT):
            assert in_order(name, found[name]) == rows_of(audited, name, partition), (partition, name)
        kept = {
            (row.entry_type, row.group_id or None): unordered(json.loads(row.payload))
            for row in entries(kept.to_pylist())
            if row.entry_type in STATES_OF_GROUPS
        }
        theirs = {key[1:]: each for key, each in audited.state().items() if key[0] == partition}
        assert kept == {key: each for key, each in theirs.items() if key[0] in STATES_OF_GROUPS}
        failed = [row for row in rows_of(audited, "quarantine", partition) if row["reason"] == "load_would_fail"]
        assert in_order("quarantine", found["quarantine"]) == [row for row in failed if "layout" not in row["detail"]]


def in_order(name: str, rows: Sequence[Row]) -> list[Row]:
    key = [column for column in TABLES[name].key if column != "audit_id"]
    plain = [{column: value for column, value in row.items() if column != "audit_id"} for row in rows]
    return sorted(plain, key=lambda row: [(row[column] is not None, row[column]) for column in key])


def rows_of(audited: ObjectTables, name: str, partition: int) -> list[Row]:
    return [row for row in audited.rows(name) if row["offsets_partition"] == partition]


def test_recorded_nights(chosen):
    recorded = read_zip(CORPORA)
    for name in chosen.some(sorted(recorded), 1):
        version = chosen.one(("4.4", "4.0.0", "3.7-java", "3.9", "0.11"))
        nights(recorded[name], name, version, chosen.random.randrange(1 << 32))


def test_generated_nights(chosen):
    generated = read_zip(GENERATED)
    for name in chosen.some(sorted(generated), 1):
        version = chosen.one(("4.3", "4.1", "4.0.0", "3.8-java", "3.9"))
        nights(generated[name], name, version, chosen.random.randrange(1 << 32))


def nights(files: Files, name: str, version: str, seed: int) -> None:
    cuts = random_cuts(files, np.random.default_rng(seed), 3, 2)
    audited = by_objects(files, How(version), audits=ends_of_nights(cuts, WEEK))
    try:
        assert_nights(files, version, decoded_nights(files, cuts, version), audited)
    except AssertionError as error:
        raise AssertionError(f"{name}, release {version}, cuts of seed {seed}") from error
