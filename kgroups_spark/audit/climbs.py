"""Moves forward of a range (offset_moves.py), of which stage 2 tells those of groups that had no members then.

Whether a group has members changes with its records of types 2 to 23 alone. So a group's climbs are settled before each
such record, and all others when the replay has passed a batch; one batch is held at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from kgroups_spark.coordinator.group_events import GroupEvent, GroupEvents

BEHIND_ALL = 1 << 62


class Climbs:
    """The climbs of one range, in log order."""

    def __init__(self, batches: Iterable[pa.RecordBatch], events: GroupEvents) -> None:
        self._batches: Iterator[pa.RecordBatch] = iter(batches)
        self._events = events
        self._batch = self._next()

    def before_record(self, log_offset: int, group_id: str) -> None:
        """A record about the group comes next."""
        batch = self._batch
        while batch is not None and batch.last_offset < log_offset:
            self._settle_all(batch)
            batch = self._batch = self._next()
        if batch is not None:
            self._settle(batch, group_id, log_offset)

    def finish(self) -> None:
        """The range has ended."""
        while self._batch is not None:
            self._settle_all(self._batch)
            self._batch = self._next()

    def _next(self) -> _Batch | None:
        rows = next(self._batches, None)
        return None if rows is None else _Batch(rows)

    def _settle_all(self, batch: _Batch) -> None:
        for group_id in batch.numbers:
            self._settle(batch, group_id, BEHIND_ALL)

    def _settle(self, batch: _Batch, group_id: str, log_offset: int) -> None:
        number = batch.numbers.get(group_id)
        if number is None:
            return
        start, end = int(batch.starts[number]), int(batch.starts[number + 1])
        start = max(start, batch.settled.get(group_id, 0))
        if start == end:
            return
        if log_offset < BEHIND_ALL:
            end = start + int(np.searchsorted(batch.log_offset[batch.order[start:end]], log_offset))
        batch.settled[group_id] = end
        group_type = self._events.type_of_emptied(group_id)
        if group_type is not None and start < end:
            self._events.tell(batch.events(batch.order[start:end], group_id, group_type))


class _Batch:
    """A batch and its rows by group."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows
        self.log_offset = rows.column("log_offset").to_numpy()
        self.last_offset = int(self.log_offset[-1])
        groups = rows.column("group_id")
        self.numbers: dict[str, int] = {}
        number_of = [self.numbers.setdefault(group_id, len(self.numbers)) for group_id in groups.dictionary.to_pylist()]
        of = np.array(number_of)[groups.indices.to_numpy()]
        self.order = np.argsort(of.astype(np.uint16) if len(self.numbers) < 1 << 16 else of, kind="stable")
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(self.numbers)))])
        # Up to which place in `order` a group's rows are settled.
        self.settled: dict[str, int] = {}

    def events(self, rows: np.ndarray, group_id: str, group_type: str) -> Iterator[GroupEvent]:
        found = self._rows.take(pa.array(rows)).to_pydict()
        names = (
            "log_offset",
            "log_timestamp",
            "commit_timestamp",
            "topic",
            "partition",
            "offset_before",
            "offset_after",
        )
        for log_offset, log_timestamp, when, topic, partition, before, after in zip(
            *(found[name] for name in names), strict=True
        ):
            yield GroupEvent(
                log_offset,
                0,
                None if log_timestamp < 0 else log_timestamp,
                when,
                group_id,
                group_type,
                "offset_skipped",
                topic=topic,
                partition=partition,
                offset_before=before,
                offset_after=after,
                cause="no_members",
            )
