"""A whole history replayed, shard by shard, and what came out of it for each table: parts that tasks have written, or
rows for Spark's writer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgroups_spark.audit.outputs import MANIFEST, PartCollector, manifest_batch, part_line
from kgroups_spark.audit.packed_rows import PACKED, packed_outputs, unpacked
from kgroups_spark.audit.read_by import ReadBy
from kgroups_spark.audit.replay import ReplayContext, replay_partitions
from kgroups_spark.audit.replay_rows import REPLAY_ROWS
from kgroups_spark.replay.replay_shard import Output
from kgroups_spark.sources.s3 import with_storage
from kgroups_spark.tables.parts_writer import Part
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.tables.writer import LakeWriter, parts_of


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
def replayed_shards(
    rows: DataFrame,
    hands: Sequence[Sequence[int]],
    writer: LakeWriter,
    names: Sequence[str],
    context: ReplayContext,
    read_by: ReadBy,
) -> Iterator[Replayed]:
    """The tables `names` that the replay rows, in any order, make; each hand is offsets partitions for one task."""
    in_order = in_log_order(rows, hands)
    if writer.name == "parts":
        yield ReplayedParts(_parts(in_order, writer.lake.uri, names, context, read_by))
        return

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from packed_outputs(_outputs(batches, names, context, read_by))

    frame = in_order.mapInArrow(task, PACKED).persist()
    try:
        yield ReplayedRows(frame)
    finally:
        frame.unpersist()


def in_log_order(rows: DataFrame, hands: Sequence[Sequence[int]]) -> DataFrame:
    """The rows of each hand in a Spark partition of its own, as stage 2 takes them."""
    pairs = [F.lit(number) for task, hand in enumerate(hands) for shard in hand for number in (shard, task)]
    placed = rows.repartitionById(len(hands), F.element_at(F.create_map(*pairs), F.col("offsets_partition")))
    in_order = placed.sortWithinPartitions("offsets_partition", F.col("log_offset").asc_nulls_first(), "kind")
    return in_order.select(REPLAY_ROWS.names)


def _parts(
    in_order: DataFrame, lake_uri: str, names: Sequence[str], context: ReplayContext, read_by: ReadBy
) -> dict[str, list[Part]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        collector = PartCollector(lake_uri, context.night.audit_id)
        outputs = _outputs(batches, names, context, read_by)
        lines = [part_line(part) for name, some in outputs for part in collector.add(name, some)]
        yield manifest_batch(lines + [part_line(part) for part in collector.rest()])

    parts: dict[str, list[Part]] = {}
    for line in in_order.mapInArrow(with_storage(task), MANIFEST).collect():
        part = Part(**json.loads(line.payload))
        parts.setdefault(part.table, []).append(part)
    return parts


def _outputs(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], context: ReplayContext, read_by: ReadBy
) -> Iterator[Output]:
    """The tables' rows; those of history by the audits that read their records."""
    for name, rows in replay_partitions(batches, context):
        if name in names:
            yield name, read_by.with_audit_ids(rows) if TABLES[name].kind == "history" else rows
