"""Removed offsets of a whole shard: reported tombstones, first commits after removals, removals to remember."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kgroups_spark.offsets.effects import Fold
from kgroups_spark.offsets.moves import MOVES, births, move_events, placed_rows
from kgroups_spark.offsets.numbers import I64, Markers
from kgroups_spark.offsets.records import column, flags
from kgroups_spark.offsets.removals import is_any_left, remember, removals
from kgroups_spark.offsets.state import REMOVED_OFFSETS
from kgroups_spark.tables.arrays import is_given
from kgroups_spark.tables.rows import by_name, no_rows, with_columns

# A tombstone that may remove a committed offset: the removed offset, and the facts that its cause depends on.
TOMBSTONES = pa.schema(
    [
        ("slot", pa.int64()),  # number of the slot among those of all ranges
        *REMOVED_OFFSETS,  # committed_offset and topic_id: of the removed offset
        ("log_timestamp", pa.int64()),  # ms; null: none
        ("offset_delta", pa.int32()),  # after the base offset of its batch; null: not known
        ("commit_timestamp", pa.int64()),  # of the removed offset, ms; null: none
        ("expire_timestamp", pa.int64()),
        ("value_version", pa.int16()),
        ("removed_log_offset", pa.int64()),  # the record whose value it removed; null: the log does not have it
        ("is_pending", pa.bool_()),  # an open transaction held an offset of the slot
        ("is_group_left", pa.bool_()),  # the group has other committed offsets left
        ("is_topic_left", pa.bool_()),  # a group of the offsets partition has an offset of the topic left
        ("is_reported", pa.bool_()),  # it is an event: not remembered as removed, nor only ever pending
    ]
)
_OF_REMOVED = ("committed_offset", "topic_id", "commit_timestamp", "expire_timestamp", "value_version")


@dataclass(eq=False)
class ShardRemovals:
    """Collects the removals of the ranges."""

    _tombstones: list[pa.Table] = field(default_factory=list)
    _saved: list[pa.Table] = field(default_factory=list)
    _born_later: list[pa.Table] = field(default_factory=list)
    # The place of each birth, and the numbers of its group and topic.
    _born: list[dict[str, I64]] = field(default_factory=list)
    _groups: dict[str, int] = field(default_factory=dict)
    _topics: dict[str, int] = field(default_factory=dict)

    def add(
        self, folded: Fold, records: pa.Table, markers: Markers, saved: pa.Table, saved_slot: I64, first_slot: int
    ) -> None:
        """Adds a range of slots. `saved`: their removed offsets in the saved state; `saved_slot`: the slot of each."""
        commits, effects = folded.commits, folded.effects
        self._saved.append(saved.append_column("slot", pa.array(saved_slot + first_slot)))
        self._tombstones.append(_tombstone_rows(folded, records, first_slot))
        born = births(effects)
        slot = commits.slot[effects.row[born]]
        numbers = {
            "place": effects.place[born],
            "group_id": _numbers(self._groups, commits.slots.groups)[commits.slots.group[slot]],
            "topic": _numbers(self._topics, commits.slots.topics)[commits.slots.topic[slot]],
        }
        self._born.append(numbers)
        gone = np.concatenate([saved_slot, commits.slot[commits.is_tombstone]])
        self._born_later.append(placed_rows(folded, records, born[np.isin(slot, gone)], markers, first_slot))

    def result(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """TOMBSTONES in log order, events of restarts (MOVES), and what is remembered at the end (REMOVED_OFFSETS)."""
        saved = pa.concat_tables(self._saved)
        if not len(saved) and not any(map(len, self._tombstones)):
            return no_rows(TOMBSTONES), no_rows(MOVES), no_rows(REMOVED_OFFSETS)
        saved = saved.sort_by("log_offset")
        tombstones = pa.concat_tables(self._tombstones).sort_by("log_offset")
        born = pa.concat_tables(self._born_later)
        known = np.concatenate([np.ones(len(saved), np.bool_), tombstones.column("removed_log_offset").is_valid()])
        slot, place = (
            np.concatenate([column(saved, name), column(tombstones, name)]) for name in ("slot", "log_offset")
        )
        found = remember(slot, place, known, column(born, "slot"), column(born, "log_offset"))
        of_both = pa.concat_tables([each.select(REMOVED_OFFSETS.names) for each in (saved, tombstones)])
        of_both = of_both.unify_dictionaries().combine_chunks()
        reported = found.reports[len(saved) :] & (known[len(saved) :] | ~flags(tombstones, "is_pending"))
        tombstones = with_columns(
            tombstones,
            is_reported=pa.array(reported),
            is_group_left=pa.array(self._is_any_left("group_id", self._groups, tombstones)),
            is_topic_left=pa.array(self._is_any_left("topic", self._topics, tombstones)),
        )
        at_the_end = of_both.take(pa.array(found.at_the_end))
        return tombstones, _restart_events(born, of_both, found.restarts), at_the_end

    def _is_any_left(self, name: str, known: dict[str, int], tombstones: pa.Table) -> np.ndarray:
        texts = tombstones.column(name).unify_dictionaries().combine_chunks()
        owner, place = _numbers(known, texts.dictionary)[texts.indices.to_numpy()], column(tombstones, "log_offset")
        removes = is_given(tombstones["removed_log_offset"])
        born, born_at = (np.concatenate([each[column] for each in self._born]) for column in (name, "place"))
        return is_any_left((born, born_at), (owner[removes], place[removes]), owner, place)


def _numbers(known: dict[str, int], names: pa.Array) -> I64:
    """The number of each name; new names get the next ones."""
    return np.array([known.setdefault(name, len(known)) for name in names.to_pylist()], np.int64)


def _tombstone_rows(folded: Fold, records: pa.Table, first_slot: int) -> pa.Table:
    """The tombstones of a range as rows of TOMBSTONES; columns that depend on other ranges are filled in later."""
    effects, found = folded.effects, removals(folded)
    if not len(found):
        return no_rows(TOMBSTONES)
    rows = records.take(pa.array(effects.row[found.at]))
    removed = pa.array(effects.row[found.removed], mask=found.removed < 0)
    values = records.select([*_OF_REMOVED, "log_offset"]).take(removed)
    columns = {
        "slot": pa.array(folded.commits.slot[effects.row[found.at]] + first_slot),
        **{name: values.column(name) for name in _OF_REMOVED},
        "removed_log_offset": values.column("log_offset"),
        "is_pending": pa.array(found.is_pending),
        **dict.fromkeys(("is_group_left", "is_topic_left", "is_reported"), pa.nulls(len(rows), pa.bool_())),
    }
    return pa.table(by_name(rows) | columns, TOMBSTONES)


def _restart_events(born: pa.Table, gone: pa.Table, restarts: I64) -> pa.Table:
    """Events of the first commits after removals with a known removed offset."""
    after = np.flatnonzero(restarts >= 0)
    was = gone.take(pa.array(restarts[after]))
    known = is_given(was["committed_offset"])
    was, placed = was.filter(pa.array(known)), born.take(pa.array(after[known]))
    before = was.column("committed_offset").combine_chunks(), was.column("topic_id").combine_chunks()
    return move_events(placed, *before, restarts=True)
