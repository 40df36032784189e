"""A table's Parquet files, of any writer, read by pyarrow in the driver or in tasks."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs

from kgroups_spark.storage.files import file_system
from kgroups_spark.tables.schemas import arrow_schema

# Text columns with values that repeat from row to row.
DICTIONARIES = {
    "offset_commits": ["group_id", "topic", "topic_id"],
    "checkpoints": ["reason", "entry_type", "group_id", "topic", "topic_id"],
    "offset_expiry": ["group_id", "topic", "decision", "reason", "base"],
}


def dataset_of(name: str, table_uri: str, paths: Sequence[str], *, as_dictionaries: bool = False) -> pa.dataset.Dataset:
    """The rows of the files; `paths` as in the table's log. A column that a file lacks is null in its rows.
    `as_dictionaries`: the columns in DICTIONARIES are dictionary-encoded."""
    dictionaries = DICTIONARIES.get(name, []) if as_dictionaries else []
    schema = _with_dictionaries(arrow_schema(name), dictionaries)
    if not paths:
        return pa.dataset.dataset(schema.empty_table())
    storage, folder = file_system(table_uri)
    options = {"coerce_int96_timestamp_unit": "us", "dictionary_columns": dictionaries}  # Spark writes int96
    # From a local disk, columns are read piece by piece. A store gets one request for all columns of a row group.
    is_local = isinstance(storage, pa.fs.LocalFileSystem)
    scan = pa.dataset.ParquetFragmentScanOptions(
        use_buffered_stream=is_local, pre_buffer=not is_local, page_checksum_verification=True
    )
    parquet = pa.dataset.ParquetFileFormat(read_options=options, default_fragment_scan_options=scan)
    in_it = [f"{folder}/{unquote(path)}" for path in paths]
    return pa.dataset.dataset(in_it, schema=schema, filesystem=storage, format=parquet)


def _with_dictionaries(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema(
        [each.with_type(pa.dictionary(pa.int32(), each.type)) if each.name in names else each for each in schema]
    )
