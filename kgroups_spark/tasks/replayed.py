"""A whole history replayed, shard by shard, and what came out of it for each table: parts that tasks have written, or
rows for Spark's writer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from kgroups_spark.lake.parts_writer import Part
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.tasks.outputs import FACTS
from kgroups_spark.tasks.packed_rows import row_counts, unpacked
from kgroups_spark.tasks.replay_stage import Task, replayed_frame, replayed_parts

FACTS_TEXT = StructType([StructField(FACTS, StringType())])


class Replayed(Protocol):
    """The result of a replay of history. `facts`: what its tasks tell besides."""

    @property
    def facts(self) -> Sequence[Any]: ...

    def rows(self, name: str) -> int:
        """How many rows of the table there are."""

    def append(self, writer: LakeWriter, name: str) -> None:
        """Adds its rows to the table."""

    def replace(self, writer: LakeWriter, name: str, keep_audit: int | None = None) -> None:
        """Makes its rows of the table the only ones but for those that `keep_audit` wrote."""


@dataclass(frozen=True)
class ReplayedParts:
    """Rows that are parts already."""

    parts: Sequence[Part]
    facts: Sequence[Any]

    def of(self, name: str) -> list[Part]:
        """Those of a table."""
        return [part for part in self.parts if part.table == name]

    def rows(self, name: str) -> int:
        return sum(part.records for part in self.of(name))

    def append(self, writer: LakeWriter, name: str) -> None:
        writer.append_parts(name, self.of(name))

    def replace(self, writer: LakeWriter, name: str, keep_audit: int | None = None) -> None:
        writer.replace_parts(name, self.of(name), keep_audit)


@dataclass(frozen=True)
class ReplayedRows:
    """Rows as a frame, packed."""

    frame: DataFrame

    @property
    def facts(self) -> list[Any]:
        return [json.loads(row[0]) for row in unpacked(self.frame, FACTS, FACTS_TEXT).collect()]

    def rows(self, name: str) -> int:
        return row_counts(self.frame, [name])[name]

    def append(self, writer: LakeWriter, name: str) -> None:
        writer.append(name, unpacked(self.frame, name))

    def replace(self, writer: LakeWriter, name: str, keep_audit: int | None = None) -> None:
        writer.replace(name, unpacked(self.frame, name), keep_audit)


@contextmanager
def replayed(shards: DataFrame, shard_task: Task, writer: LakeWriter) -> Iterator[Replayed]:
    """The tables that the shards (rows of SHARDS) make of their history."""
    if writer.name == "parts":
        yield ReplayedParts(*replayed_parts(shards, shard_task))
        return
    frame = replayed_frame(shards, shard_task).persist()
    try:
        yield ReplayedRows(frame)
    finally:
        frame.unpersist()
