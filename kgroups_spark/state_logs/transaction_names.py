"""The names of open transactions: `transactional_id` in the current tables, from `__transaction_state`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.parts_writer import Part
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.tables.rows import with_columns

NAMED = ("pending_offsets", "open_transactions")
NAME = "transactional_id"


class NamingWriter(LakeWriter):
    """A writer that fills in the names of the producers of NAMED. `transactional_ids` must be written before."""

    @classmethod
    def of(cls, writer: LakeWriter) -> NamingWriter:
        """The same writer, as one that fills in names."""
        return cls(**{field.name: getattr(writer, field.name) for field in fields(writer)})

    def replace_parts(self, table: str, parts: Sequence[Part], keep_audit: int | None = None) -> None:
        super().replace_parts(table, self._named(table, parts) if table in NAMED else parts, keep_audit)

    def _named(self, table: str, parts: Sequence[Part]) -> list[Part]:
        """The rows of the parts in one part with the names; few transactions are open at a time."""
        paths = [part.path for part in parts]
        rows = self.lake.dataset(table, paths).to_table()
        part = self.lake.write(table, [named_table(self.lake, rows)], self.audit_id)
        return [part] if part else []


def named_table(lake: Lake, rows: pa.Table) -> pa.Table:
    """The rows with the names of their producers; null: `__transaction_state` does not have the producer."""
    producers = pc.unique(rows["producer_id"]).to_pylist()
    wanted = [Condition("producer_id", "in", producers)]
    known = lake.rows("transactional_ids", columns=["producer_id", NAME], conditions=wanted) if producers else None
    names = dict(zip(known["producer_id"].to_pylist(), known[NAME].to_pylist(), strict=True)) if known else {}
    column = pa.array([names.get(producer) for producer in rows["producer_id"].to_pylist()], pa.string())
    return with_columns(rows, **{NAME: column})
