"""The history of one night, as the replay of offsets takes it."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.tables.schemas import arrow_schema
from tests.audit.log_files import Files, segments_of
from tests.audit.pipeline import Audited
from tests.coordinator.log_rows import replay_rows


def history(audited: Audited, name: str, partition: int, audit_id: int, transactional: set[int]) -> pa.Table:
    """Rows of a partition that an audit wrote; of quarantine those in transactions, which it does not say itself."""
    rows = pa.concat_tables([arrow_schema(name).empty_table(), *audited.history[name]])
    where = (pc.field("offsets_partition") == partition) & (pc.field("audit_id") == audit_id)
    if name == "quarantine":
        where &= pc.field("log_offset").isin(pa.array(sorted(transactional), pa.int64()))
    return rows.filter(where)


def transactional_garbage(files: Files, partition: int) -> set[int]:
    """Log offsets of records with the transactional bit that do not decode, or are of an unknown type."""
    rows = replay_rows(io.BytesIO(files[path]) for path in segments_of(files)[partition])
    return {row.log_offset for row in rows if row.kind == "undecodable" and row.is_transactional}
