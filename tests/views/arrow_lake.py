"""As much of a lake as reading on the driver needs, over Arrow tables: rows of one audit are one file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.lake.replaced import NOTHING, Replaced
from kgroups_spark.lake.store import TableFile
from kgroups_spark.tables.conditions import Condition, expression_of
from kgroups_spark.tables.schemas import arrow_schema


@dataclass(frozen=True)
class ArrowTable:
    rows: pa.Table

    def files(self) -> list[TableFile]:
        return [self._file(audit_id) for audit_id in pc.unique(self.rows["audit_id"]).to_pylist()]

    def _file(self, audit_id: int) -> TableFile:
        mine = self.rows.filter(pc.field("audit_id") == audit_id)
        names = [name for name in ("audit_id", "log_offset") if name in mine.column_names]
        bounds = {name: pc.min_max(mine[name]).as_py() for name in names}
        stats = {f"{which}Values": {name: bounds[name][which] for name in names} for which in ("min", "max")}
        return TableFile(str(audit_id), stats, 0)


@dataclass(frozen=True)
class ArrowLake:
    tables: Mapping[str, pa.Table]
    files_in_reach: bool = True
    replaced: Replaced = NOTHING

    def table(self, name: str) -> ArrowTable:
        return ArrowTable(self.tables.get(name, arrow_schema(name).empty_table()))

    def rows(
        self,
        name: str,
        *,
        files: Iterable[TableFile] | None = None,
        columns: Sequence[str] | None = None,
        conditions: Sequence[Condition] = (),
    ) -> pa.Table:
        rows = self.table(name).rows
        if files is not None:
            rows = rows.filter(pc.is_in(rows["audit_id"], pa.array([int(f.path) for f in files], pa.int64())))
        rows = rows.filter(expression_of(conditions)) if conditions else rows
        return rows if columns is None else rows.select(columns)
