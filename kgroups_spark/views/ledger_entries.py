"""Some fields of what all finished audits read of each partition, without reading the others.

Ten years of nights are 730,000 entries of the column `partitions` for 200 partitions. Parquet has each of an entry's
fields in a column of its own; Arrow's datasets read all of them or none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq

from kgroups_spark.tables.last_finished import FINISHED
from kgroups_spark.tables.schemas import arrow_schema

ENTRIES = "partitions"
TOPIC = "topic"  # of an entry: null for __consumer_offsets


def ledger_entries(audits: pa.dataset.Dataset, fields: Sequence[str]) -> pa.Table:
    """audit_id and these fields of `partitions` of the ledger's finished audits, a row an entry of __consumer_offsets,
    in no order; null where a file, of an older layout, does not have the field."""
    fragments = list(audits.get_fragments()) if isinstance(audits, pa.dataset.FileSystemDataset) else []
    schema = arrow_schema("audits")
    entry = schema.field(ENTRIES).type.value_type
    kinds = [pa.field("audit_id", pa.int64()), *(entry.field(name).with_nullable(True) for name in fields)]
    read = [_of_file(fragment, fields, pa.schema(kinds)) for fragment in fragments]
    return pa.concat_tables([pa.schema(kinds).empty_table(), *read])


def _of_file(fragment: pa.dataset.Fragment, fields: Sequence[str], schema: pa.Schema) -> pa.Table:
    with fragment.filesystem.open_input_file(fragment.path) as opened:
        file = pq.ParquetFile(opened)
        # A list's fields lie below `list.element`, or whatever its writer called that.
        leaves = [column.path for column in file.schema if column.path.startswith(f"{ENTRIES}.")]
        wanted = [path for path in leaves if path.rpartition(".")[2] in (*fields, TOPIC)]
        rows = file.read(columns=["audit_id", "status", *wanted])
    rows, lists = rows.drop_columns([ENTRIES]), rows[ENTRIES].combine_chunks()
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    entries = pc.list_flatten(lists)
    columns = {"audit_id": pa.array(np.repeat(rows["audit_id"].to_numpy(), counts))}
    there = {field.name for field in entries.type}
    columns |= {name: pc.struct_field(entries, name) for name in fields if name in there}
    columns |= {name: pa.nulls(len(entries), schema.field(name).type) for name in fields if name not in there}
    of_groups = pc.is_null(pc.struct_field(entries, TOPIC)) if TOPIC in there else pa.repeat(True, len(entries))
    table = pa.table(columns).select(schema.names).cast(schema)
    is_finished = pc.equal(rows["status"], FINISHED).to_numpy()
    # An audit that has not finished has no entries, as a rule.
    if not is_finished[counts > 0].all():
        of_groups = pc.and_(of_groups, pa.array(np.repeat(is_finished, counts)))
    return table.filter(of_groups)
