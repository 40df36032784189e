"""One offsets partition after the other through a shard of each of several releases at once: replay rows in log order
-> what two of the releases hold differently, and what expires by them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.audit.cycle_collector import no_cycle_collector
from kgroups_spark.audit.history_rows import misread_detail
from kgroups_spark.audit.judging import HELD_GROUPS, Judging, columns_needed
from kgroups_spark.audit.replay import NoTopics
from kgroups_spark.audit.replay_rows import CORRECTION, MARKER, RECORD, TOMBSTONE, VALUE
from kgroups_spark.audit.row_replay import (
    GROUP,
    KIND,
    LOG_OFFSET,
    MEMBER,
    OUTCOME,
    PARTITION,
    REGEX,
    TEXT,
    TOPIC,
    TOPIC_PARTITION,
    TYPE,
    Row,
    RowReplay,
    rows_of,
)
from kgroups_spark.coordinator import rows as shard_rows
from kgroups_spark.coordinator.release_differences import Loaded, LoadFailure, LoadFailures
from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.shard import Shard
from kgroups_spark.expiry.matching import NOWHERE, columns_of, rows_among
from kgroups_spark.messages.group_records import EARLY_ACCESS, layout_from_json
from kgroups_spark.messages.record_types import CONSUMER_OFFSETS
from kgroups_spark.tables.rows import table_batch
from kgroups_spark.tables.schemas import TABLES

# Undecodable records at which a load ends, by offsets partition: the first one, and how many there are.
Undecodable = Mapping[int, tuple[LoadFailure, int]]
# How many rows of a shard become columns at once.
ROWS_AT_ONCE = 8192

# When the decision's time comes, by the table of decisions.
WHEN = {"offset_expiry": "expires_at", "group_expiry": "deletes_at"}


@dataclass
class ReleaseReplay:
    """One release's shard of an offsets partition, and what it could not load. `skipped`: records that it does not
    know, by type."""

    loaded: Loaded
    skipped: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, release: Release, offsets_partition: int, undecodable: Undecodable) -> ReleaseReplay:
        shard, failures = Shard(release, offsets_partition), LoadFailures()
        shard.topics = NoTopics()
        if offsets_partition in undecodable:
            failure, count = undecodable[offsets_partition]
            failures.failed(failure, count=count)
        return cls(Loaded(shard, failures))

    def replay(self, row: Row, replay: RowReplay) -> None:
        """A row: a record, a marker, or a correction of the state."""
        shard, failures = self.loaded.shard, self.loaded.failures
        kind = row[KIND]
        if kind == CORRECTION:
            shard.correct(row[LOG_OFFSET], row[OUTCOME], row[GROUP], row[TEXT])
            return
        if kind == RECORD and row[TYPE] not in shard.release.record_types | shard.release.unreplayable_types:
            self.skipped[row[TYPE]] += 1
        try:
            replay.replay(row)
        except ReplayFailure as failure:
            failures.failed(LoadFailure(row[LOG_OFFSET], _told(row, str(failure))), _key(row))
            return
        detail = misread(row, shard.release)
        if detail is not None:
            failures.failed(LoadFailure(row[LOG_OFFSET], detail), _key(row))
        elif failures.count and kind in (VALUE, TOMBSTONE, RECORD):
            failures.loaded(_key(row))


def misread(row: Row, release: Release) -> str | None:
    """Why the release cannot read a value that others can: its layout of the same version is another one (T58)."""
    if row[KIND] != RECORD or row[TYPE] not in EARLY_ACCESS or row[TEXT] is None:
        return None
    if row[TYPE] not in release.record_types:
        return None
    layout = layout_from_json(row[TYPE], row[TEXT])
    if release.reads_layout(layout):
        return None
    return misread_detail(CONSUMER_OFFSETS[row[TYPE]].name, layout, release)


def _key(row: Row) -> Hashable:
    """The rule of the cleaner: the newest record of a key stays."""
    return (row[TYPE], row[GROUP], row[TOPIC], row[TOPIC_PARTITION], row[MEMBER], row[REGEX])


def _told(row: Row, failure: str) -> str:
    if row[KIND] == MARKER:
        return failure
    return f"{CONSUMER_OFFSETS[row[TYPE]].name} (type {row[TYPE]}) of group {row[GROUP]}: {failure}"


def replay_releases(
    batches: Iterable[pa.RecordBatch], releases: Sequence[tuple[Release, Undecodable]]
) -> Iterator[list[ReleaseReplay]]:
    """For every offsets partition among the replay rows, sorted by it and by log offset, what each release made of
    it."""
    rows = itertools.chain.from_iterable(map(rows_of, batches))
    with no_cycle_collector():
        for number, of_one in itertools.groupby(rows, key=itemgetter(PARTITION)):
            sides = [ReleaseReplay.of(release, number, undecodable) for release, undecodable in releases]
            replays = [(side, RowReplay(side.loaded.shard)) for side in sides]
            for row in of_one:
                for side, replay in replays:
                    side.replay(row, replay)
            yield sides


def decided(shard: Shard, judging: Judging) -> dict[str, pa.Table]:
    """offset_expiry and group_expiry of what the shard holds."""
    held = sorted(shard.groups_in_transactions()) if judging.looks_at_held_groups else []
    tables = {
        HELD_GROUPS: pa.table([[shard.offsets_partition] * len(held), held], columns_needed(HELD_GROUPS)),
        **_tables_of_now(shard),
    }
    return dict(judging.decided(tables))


def _tables_of_now(shard: Shard) -> dict[str, pa.Table]:
    """The tables that expiry is decided by."""
    tables = {}
    for name, row_type, rows in (
        ("groups", shard_rows.GroupRow, shard.group_rows()),
        ("group_members", shard_rows.MemberRow, shard.member_rows()),
        ("committed_offsets", shard_rows.CommittedRow, shard.committed_rows()),
        ("pending_offsets", shard_rows.PendingRow, shard.pending_rows()),
    ):
        batches, needed = [], columns_needed(name)
        while some := list(itertools.islice(rows, ROWS_AT_ONCE)):
            batches.append(table_batch(name, row_type._fields, some, audit_id=0).select(needed.names))
        tables[name] = pa.Table.from_batches(batches, needed)
    return tables


def expiry_differences(a: Mapping[str, pa.Table], b: Mapping[str, pa.Table]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The decisions that differ on what both have: which decision, its key, and decision, reason and time (ms) of both
    as `decision_a`, `decision_b`, ..."""
    for name, when in WHEN.items():
        key = list(TABLES[name].key)
        place = rows_among(columns_of(a[name], key), columns_of(b[name], key))
        of_a = a[name].filter(pa.array(place != NOWHERE))
        of_b = b[name].take(pa.array(place[place != NOWHERE]))
        values = {
            f"{column}_{side}": rows[column].cast(pa.int64()) if column == when else rows[column]
            for side, rows in (("a", of_a), ("b", of_b))
            for column in ("decision", "reason", when)
        }
        both = pa.table({column: of_a[column] for column in key} | values)
        differs = np.zeros(both.num_rows, bool)
        for column in ("decision", when):
            one, other = (both[f"{column}_{side}"] for side in "ab")
            is_equal = pc.equal(one, other).fill_null(False).to_numpy(zero_copy_only=False)
            both_null = pc.and_(one.is_null(), other.is_null()).to_numpy(zero_copy_only=False)
            differs |= ~(is_equal | both_null).astype(bool)
        for row in both.filter(pa.array(differs)).to_pylist():
            for side in "ab":
                micros = row[f"{when}_{side}"]
                row[f"{when}_{side}"] = None if micros is None else micros // 1000
            yield name, row
