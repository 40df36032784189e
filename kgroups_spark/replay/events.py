"""Rows of `group_events`: events of acts (coordinator/group_events.py), and events at values and markers.

Events at values and markers are moves of offsets, and groups that a value creates or a marker removes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.group_events import GroupEvent, MemberEvents
from kgroups_spark.coordinator.member_changes import MemberName
from kgroups_spark.offsets.moves import MOVES
from kgroups_spark.offsets.numbers import starts_of
from kgroups_spark.offsets.records import TEXT, column, flags
from kgroups_spark.replay.group_times import GroupFacts, GroupTimes
from kgroups_spark.tables.rows import by_name, table_batch, table_of
from kgroups_spark.tables.rows import column as array_of
from kgroups_spark.tables.schemas import arrow_schema

WITHOUT_CAUSE = ("topic_recreated", "offset_unset")
_OF_ALL = ("log_offset", "log_timestamp", "event_timestamp", "group_id", "group_type", "event")


def event_batches(events: Sequence[GroupEvent | MemberEvents], **constants: Any) -> Iterator[pa.RecordBatch | pa.Table]:
    """The events as rows, in no order."""
    single = [event for event in events if isinstance(event, GroupEvent)]
    if single:
        yield table_batch("group_events", GroupEvent._fields, single, **constants)
    of_members = [event for event in events if isinstance(event, MemberEvents)]
    if of_members:
        yield _member_rows(of_members, constants)


def _member_rows(events: list[MemberEvents], constants: dict[str, Any]) -> pa.Table:
    counts = np.array([len(event.members) for event in events])
    rows, of = int(counts.sum()), np.repeat(np.arange(len(events)), counts)
    first = np.array([event.event_index for event in events])
    names = zip(*chain.from_iterable(event.members for event in events), strict=True)
    columns = {name: pa.array(values, pa.string()) for name, values in zip(MemberName._fields, names, strict=True)}
    columns["event_index"] = pa.array(first[of] + np.arange(rows) - (np.cumsum(counts) - counts)[of], pa.int32())
    for name in _OF_ALL:
        values = array_of([getattr(event, name) for event in events], arrow_schema("group_events").field(name).type)
        columns[name] = values.take(pa.array(of))
    return table_of("group_events", columns, rows, **constants)


_ORDER = ("log_offset", "group_id", "is_move", "topic", "partition", "rank")


def move_event_rows(moves: pa.Table, of_groups: Sequence[GroupEvent], times: GroupTimes, **constants: Any) -> pa.Table:
    """Moves (MOVES, in any order) and events of groups at values and markers, as rows of `group_events`. They are
    numbered from 0 at each log offset: by group, topic and partition, a group before its offsets.

    `times`: the facts of the groups. Facts at a marker's moves are those before the marker removes groups.
    """
    rows = pa.concat_tables([_with_facts(moves, times), _of_groups(of_groups)])
    order = pc.sort_indices(_sort_keys(rows), [(name, "ascending") for name in _ORDER])
    rows = rows.take(order)
    starts = np.flatnonzero(starts_of(column(rows, "log_offset")))
    first = np.repeat(starts, np.diff(np.append(starts, len(rows))))
    rows = rows.append_column("event_index", pa.array(np.arange(len(rows)) - first))
    return table_of("group_events", by_name(rows), len(rows), **constants)


def _sort_keys(rows: pa.Table) -> pa.Table:
    """_ORDER of the rows, without nulls, because pyarrow's releases sort nulls differently."""
    topic = rows.column("topic").cast(pa.string())
    return pa.table(
        [
            rows.column("log_offset"),
            rows.column("group_id").cast(pa.string()),
            topic.is_valid().cast(pa.int8()),
            pc.fill_null(topic, ""),
            pc.fill_null(rows.column("partition"), 0),
            rows.column("rank"),
        ],
        list(_ORDER),
    )


_ROWS = pa.schema(
    [
        *(MOVES.field(name) for name in ("log_offset", "log_timestamp", "event_timestamp", "group_id")),
        ("group_type", pa.string()),
        ("event", pa.string()),
        ("topic", TEXT),
        *(MOVES.field(n) for n in ("partition", "offset_before", "offset_after", "value_before", "value_after")),
        ("cause", pa.string()),
        ("rank", pa.int64()),
    ]
)


def _with_facts(moves: pa.Table, times: GroupTimes) -> pa.Table:
    by_marker = flags(moves, "by_marker")
    at = column(moves, "log_offset") - by_marker
    facts = times.at(moves.column("group_id").to_pylist(), at)
    # topic_recreated has no cause of its own and comes first at its value. A marker's events are sorted by their names.
    events = moves.column("event")
    is_renamed = pc.equal(events, "topic_recreated").to_numpy()
    causes = [
        None if event in WITHOUT_CAUSE else cause or _cause(of)
        for event, cause, of in zip(events.to_pylist(), moves.column("cause").to_pylist(), facts, strict=True)
    ]
    found = {
        "group_type": pa.array([each.group_type for each in facts], pa.string()),
        "cause": pa.array(causes, pa.string()),
        "rank": pa.array((is_renamed == by_marker).astype(np.int64)),
    }
    return pa.table(by_name(moves) | found, _ROWS)


def _cause(facts: GroupFacts) -> str:
    if facts.group_type is None:
        return "unknown"
    if facts.has_members:
        return "with_members"
    return "self_assigned" if facts.is_self_assigned else "no_members"


def _of_groups(events: Sequence[GroupEvent]) -> pa.Table:
    columns = [
        pa.array([0] * len(events), f.type)
        if f.name == "rank"
        else pa.array([getattr(event, f.name) for event in events], pa.string()).dictionary_encode()
        if f.type == TEXT
        else pa.array([getattr(event, f.name) for event in events], f.type)
        for f in _ROWS
    ]
    return pa.table(columns, schema=_ROWS)
