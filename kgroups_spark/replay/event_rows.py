"""Rows of `group_events`, those of many members by columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from kgroups_spark.coordinator.group_events import GroupEvent, MemberEvents
from kgroups_spark.tables.rows import column, constant, table_batch
from kgroups_spark.tables.schemas import arrow_schema

_OF_ALL = ("log_offset", "log_timestamp", "event_timestamp", "group_id", "group_type", "event")


def event_batches(events: Sequence[GroupEvent | MemberEvents], **constants: Any) -> Iterator[pa.RecordBatch]:
    """The events as rows, in no order."""
    single = [event for event in events if isinstance(event, GroupEvent)]
    if single:
        yield table_batch("group_events", GroupEvent._fields, single, **constants)
    of_members = [event for event in events if isinstance(event, MemberEvents)]
    if of_members:
        yield _member_batch(of_members, constants)


def _member_batch(events: list[MemberEvents], constants: dict[str, Any]) -> pa.RecordBatch:
    counts = np.array([len(event.member_ids) for event in events])
    rows, of = int(counts.sum()), np.repeat(np.arange(len(events)), counts)
    first = np.array([event.event_index for event in events])
    columns = {
        "member_id": pa.array(chain.from_iterable(event.member_ids for event in events), pa.string(), size=rows),
        "event_index": pa.array(first[of] + np.arange(rows) - (np.cumsum(counts) - counts)[of], pa.int32()),
    }
    arrays = []
    for field in arrow_schema("group_events"):
        if field.name in columns:
            arrays.append(columns[field.name])
        elif field.name in _OF_ALL:
            values = column([getattr(event, field.name) for event in events], field.type)
            arrays.append(values.take(pa.array(of)))
        else:
            arrays.append(constant(constants.get(field.name), rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema("group_events"))
