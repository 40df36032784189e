"""A whole history replayed, shard by shard, and what came out of it for each table: parts that tasks have written, or
rows for Spark's writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from kgroups_spark.lake.parts_writer import Part
from kgroups_spark.lake.writer import LakeWriter, parts_of
from kgroups_spark.tasks.packed_rows import unpacked
from kgroups_spark.tasks.replay_stage import Task, replayed_frame, replayed_parts


class Replayed(Protocol):
    """The result of a replay of history."""

    def replace(
        self, writer: LakeWriter, name: str, more: DataFrame | None = None, keep_audit: int | None = None
    ) -> None:
        """Makes its rows of the table, and `more`, the only ones but for those that `keep_audit` wrote."""


@dataclass(frozen=True)
class ReplayedParts:
    """Rows that are parts already, by table."""

    parts: Mapping[str, Sequence[Part]]

    def replace(
        self, writer: LakeWriter, name: str, more: DataFrame | None = None, keep_audit: int | None = None
    ) -> None:
        others = [] if more is None else parts_of(more, writer.part_writer(name))
        writer.replace_parts(name, [*self.parts.get(name, ()), *others], keep_audit)


@dataclass(frozen=True)
class ReplayedRows:
    """Rows as a frame, packed."""

    frame: DataFrame

    def replace(
        self, writer: LakeWriter, name: str, more: DataFrame | None = None, keep_audit: int | None = None
    ) -> None:
        rows = unpacked(self.frame, name)
        writer.replace(name, rows if more is None else rows.unionByName(more), keep_audit)


@contextmanager
def replayed(shards: DataFrame, shard_task: Task, writer: LakeWriter) -> Iterator[Replayed]:
    """The tables that the shards (rows of SHARDS) make of their history."""
    if writer.name == "parts":
        parts: dict[str, list[Part]] = {}
        for part in replayed_parts(shards, shard_task):
            parts.setdefault(part.table, []).append(part)
        yield ReplayedParts(parts)
        return
    frame = replayed_frame(shards, shard_task).persist()
    try:
        yield ReplayedRows(frame)
    finally:
        frame.unpersist()
