"""History as stage 1 writes it gives the tables that audits have written: offsets need nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kgroups_spark.coordinator.releases import release
from kgroups_spark.offsets.replay import replay_offsets
from kgroups_spark.offsets.state import OffsetState
from kgroups_spark.replay import offset_rows as tables
from kgroups_spark.replay.shard_history import ShardHistory
from tests.logs.log_files import Files, random_cuts, read_zip, segments_of
from tests.nights.decoded import Decoded
from tests.nights.nights_here import How
from tests.offsets.night_history import decoded_nights, ends_of_nights, history, transactional_garbage
from tests.recorded_logs import CORPORA
from tests.twin.object_nights import ObjectTables, by_objects

GENERATED = Path(__file__).parents[1] / "coordinator" / "data" / "generated_logs.zip"
WEEK = 7 * 86_400_000
LOG = ("offset_commits", "group_records", "transaction_markers", "quarantine")
MOVES = ("offset_rewound", "offset_restarted", "topic_recreated")
Row = dict[str, Any]


def assert_nights(files: Files, version: str, nights: list[Decoded], audited: ObjectTables) -> None:
    """The offsets of each night replayed from its history and the state of the night before."""
    rules = release(version)
    for partition in segments_of(files):
        garbage = transactional_garbage(files, partition)
        state, moves, tombstones, ended, failures = OffsetState.empty(), [], [], [], []
        for night in nights:
            log = [history(night, name, partition, garbage) for name in LOG]
            offsets = ShardHistory.of_tables(*log).offsets()
            found = replay_offsets(state, offsets, rules)
            state = found.state
            completed = tables.ended_columns(found.transactions, offsets.markers)
            ended += list(zip(offsets.markers.log_offset.tolist(), completed.to_pylist(), strict=True))
            moves += found.moves.to_pylist()
            tombstones += found.tombstones.filter(found.tombstones.column("is_reported")).to_pylist()
            failures += found.unreadable.column("log_offset").to_pylist()
        of = {name: rows_of(audited, name, partition) for name in ("groups", *LOG[2:], "group_events")}
        groups = [row["group_id"] for row in of["groups"]]
        constants = {"audit_id": 1, "offsets_partition": partition}
        for name, rows in (
            ("committed_offsets", tables.committed_rows(found, groups, **constants)),
            ("pending_offsets", tables.pending_rows(found, **constants)),
            ("open_transactions", tables.open_transaction_rows(found, **constants)),
        ):
            assert keyed(rows.drop_columns("audit_id").to_pylist()) == keyed(rows_of(audited, name, partition)), name
        names = ("transaction_start_offset", "offset_count", "group_ids")
        assert ended == [(row["log_offset"], {name: row[name] for name in names}) for row in of["transaction_markers"]]
        assert failures == [
            row["log_offset"]
            for row in of["quarantine"]
            if row["reason"] == "load_would_fail" and row["record_type"] in (0, 1)
        ]
        events = [row for row in of["group_events"] if row["event"] in MOVES]
        names = ("log_offset", "group_id", "topic", "partition", "event", "offset_before", "offset_after")
        assert picked(moves, names) == picked(events, names)
        names = ("log_offset", "group_id", "topic", "partition")
        events = [row for row in of["group_events"] if row["event"] == "offset_removed"]
        assert picked(tombstones, (*names, "committed_offset")) == picked(events, (*names, "offset_before"))


def rows_of(audited: ObjectTables, name: str, partition: int) -> list[Row]:
    return [row for row in audited.rows(name) if row["offsets_partition"] == partition]


def keyed(rows: Sequence[Row]) -> list[list[tuple[str, Any]]]:
    return sorted((list(row.items()) for row in rows), key=repr)


def picked(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in names) for row in rows), key=repr)


def test_recorded_nights(chosen):
    recorded = read_zip(CORPORA)
    for name in chosen.some(sorted(recorded), 1):
        nights(
            recorded[name], chosen.one(("4.4", "4.0.0", "3.7-java", "3.9", "0.11")), chosen.random.randrange(1 << 32)
        )


def test_generated_nights(chosen):
    generated = read_zip(GENERATED)
    for name in chosen.some(sorted(generated), 1):
        nights(
            generated[name], chosen.one(("4.3", "4.1", "4.0.0", "3.8-java", "3.9")), chosen.random.randrange(1 << 32)
        )


def nights(files: Files, version: str, seed: int) -> None:
    cuts = random_cuts(files, np.random.default_rng(seed), 3, 2)
    audited = by_objects(files, How(version), audits=ends_of_nights(cuts, WEEK))
    try:
        assert_nights(files, version, decoded_nights(files, cuts, version), audited)
    except AssertionError as error:
        raise AssertionError(f"release {version}, cuts of seed {seed}") from error
