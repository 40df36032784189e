"""Reducing by columns against the same record by record. (That both keep the law: test_nights.py.)"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from kgroups_spark.audit.reduce_range import reduce_rules
from kgroups_spark.coordinator.offset_metadata import OffsetAndMetadata
from kgroups_spark.coordinator.reduce import is_value, reduce
from kgroups_spark.coordinator.reduce_columns import (
    ABORT,
    COMMIT,
    NEITHER,
    CommitFacts,
    MarkerFacts,
    reduce_columns,
)
from kgroups_spark.coordinator.releases import Release, release
from kgroups_spark.coordinator.replay_row import ReplayRow
from tests.audit.pipeline import How, audit
from tests.records.build import batch

OUTCOMES = {"committed": COMMIT, "aborted": ABORT, None: NEITHER}

VALUE = OffsetAndMetadata(7, None, "", 1, None, None, 1)


def commit(group: str = "a", partition: int = 0, value: OffsetAndMetadata | None = VALUE, **more: object) -> ReplayRow:
    fields = {"record_type": 1, "group_id": group, "topic": "t", "partition": partition, "commit": value, **more}
    return ReplayRow(0, None, "offset_commit", **fields)  # type: ignore[arg-type]


def transactional(row: ReplayRow, producer_id: int) -> ReplayRow:
    return row._replace(producer_id=producer_id, producer_epoch=0, is_transactional=True)


def marker(producer_id: int, outcome: str | None) -> ReplayRow:
    return ReplayRow(0, None, "marker", producer_id=producer_id, outcome=outcome)  # type: ignore[arg-type]


GROUP_RECORD = ReplayRow(0, None, "group_record", record_type=2, group_id="a")

KINDS = {
    "value": commit(),
    "tombstone": commit(value=None),
    "group record": GROUP_RECORD,
    "value of 1": transactional(commit(), 1),
    "value of 2": transactional(commit(), 2),
    "COMMIT of 1": marker(1, "committed"),
    "ABORT of 1": marker(1, "aborted"),
    "COMMIT of 2": marker(2, "committed"),
    "other marker of 1": marker(1, None),
    "tombstone in 1": transactional(commit(value=None), 1),
    "value of 1 without its bit": commit(producer_id=1, producer_epoch=0),
    "group record in 1": transactional(GROUP_RECORD, 1),
    "undecodable in 1": transactional(ReplayRow(0, None, "undecodable"), 1),
    "value of an unread version": commit(record_type=0, value=VALUE._replace(value_version=3)),
    "value of type 0": commit(record_type=0, value=VALUE._replace(value_version=0)),
    "value of another partition": commit(partition=1),
    "value of another group": commit("b"),
    "value of another group of 1": transactional(commit("b"), 1),
}
FEW = (
    "value",
    "tombstone",
    "group record",
    "value of 1",
    "COMMIT of 1",
    "ABORT of 1",
    "other marker of 1",
    "value of 2",
)
RELEASES = ("4.3", "4.0.0", "3.9", "3.7-java", "2.8")


def as_log(kinds: Iterable[ReplayRow]) -> list[ReplayRow]:
    """The rows with log offsets; some offsets are missing."""
    return [row._replace(log_offset=10 + 3 * at) for at, row in enumerate(kinds)]


def reduced_by_columns(log: Sequence[ReplayRow], rules: Release) -> list[ReplayRow]:
    """What `reduce_columns` leaves of the log, as rows."""
    commits = [row for row in log if row.kind == "offset_commit"]
    markers = [row for row in log if row.kind == "marker"]
    others = [row for row in log if row.kind in ("group_record", "undecodable")]
    breaks = [row for row in others if row.kind == "group_record"]
    spoilers = [row for row in others if row.producer_id >= 0]
    slots = {slot: number for number, slot in enumerate(dict.fromkeys(row.slot for row in commits))}
    groups = {group: number for number, group in enumerate(dict.fromkeys(row.group_id for row in [*commits, *breaks]))}
    tombstone = np.array([row.commit is None for row in commits], np.bool_)
    reduced = reduce_columns(
        CommitFacts(
            ints(row.log_offset for row in commits),
            ints(slots[row.slot] for row in commits),
            ints(groups[row.group_id] for row in commits),
            ints(row.producer_id for row in commits),
            np.array([row.is_transactional for row in commits], np.bool_),
            tombstone,
            tombstone | np.array([is_value(row, rules) for row in commits], np.bool_),
            np.ones(len(commits), np.bool_),
        ),
        MarkerFacts(
            ints(row.log_offset for row in markers),
            ints(row.producer_id for row in markers),
            ints(OUTCOMES[row.outcome] for row in markers),
        ),
        (ints(groups[row.group_id] for row in breaks), ints(row.log_offset for row in breaks)),
        (ints(row.producer_id for row in spoilers), ints(row.log_offset for row in spoilers)),
        reduce_rules(rules),
    )
    left = [*others, *itertools.compress(markers, reduced.keep_marker)]
    for row, keep, plain, bare in zip(
        commits, reduced.keep, reduced.became_plain, reduced.without_content, strict=True
    ):
        assert not (keep and bare)
        if keep:
            left.append(row._replace(producer_id=-1, producer_epoch=-1, is_transactional=False) if plain else row)
        elif bare:
            left.append(ReplayRow(row.log_offset, row.log_timestamp, "keep_group", group_id=row.group_id))
    return sorted(left, key=lambda row: row.log_offset)


def ints(values: Iterable[int]) -> np.ndarray:
    return np.fromiter(values, np.int64)


def check(kinds: Sequence[str], version: str) -> None:
    log, rules = as_log(KINDS[kind] for kind in kinds), release(version)
    assert reduced_by_columns(log, rules) == reduce(log, rules), f"{version}: {', '.join(kinds)}"


@pytest.mark.parametrize("version", RELEASES)
def test_by_columns_all_short_logs_are_reduced_as_record_by_record(version: str) -> None:
    for kinds in itertools.product(KINDS, repeat=2):
        check(kinds, version)
    for kinds in itertools.product(FEW, repeat=4):
        check(kinds, version)


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("seed", range(3))
def test_by_columns_random_logs_are_reduced_as_record_by_record(version: str, seed: int) -> None:
    rng = random.Random(f"{version} {seed}")
    for _ in range(150):
        check(rng.choices(list(KINDS), k=rng.randint(3, 40)), version)


def offset_commit(version: int, committed_offset: int) -> tuple[bytes, bytes]:
    """Key and value of an offset commit of version 3, or 4 with its empty tag section."""
    head = version.to_bytes(2, "big") + committed_offset.to_bytes(8, "big") + bytes(4)
    return b"\0\1\0\1g\0\1t\0\0\0\0", head + (b"\0\0" + bytes(8) if version == 3 else b"\1" + bytes(8) + b"\0")


@pytest.mark.parametrize(("version", "committed", "failed"), [("2.8", 5, 2), ("3.9", 7, 0), ("4.3", 7, 0)])
def test_a_value_that_a_release_cannot_read_supersedes_none(version: str, committed: int, failed: int) -> None:
    values = [offset_commit(3, 5), offset_commit(4, 6), offset_commit(4, 7)]
    audited = audit({"__consumer_offsets-0/00000000000000000000.log": batch(0, values)}, How(version))
    assert [row["committed_offset"] for row in audited.rows("committed_offsets")] == [committed]
    assert [row["reason"] for row in audited.rows("quarantine")] == ["load_would_fail"] * failed
    assert audited.record_count() == 3
