"""Which writer an audit takes: `auto` takes `parts` where plain files by pyarrow are right and reach the lake."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Literal

import pyarrow as pa

from kgroups_spark.errors import UsageError
from kgroups_spark.tables.failures import reason_of
from kgroups_spark.tables.lake import WORK_FOLDER, Lake
from kgroups_spark.tables.parts_writer import lake_file_system
from kgroups_spark.tables.schemas import TABLES

WriterName = Literal["parts", "spark"]
WRITER_NAMES = ("auto", "parts", "spark")


def choose_writer(lake: Lake, wanted: str) -> tuple[WriterName, str | None]:
    """The writer for `--writer auto|parts|spark`, and why it is `spark` where `auto` had to fall back.

    Raises UsageError when `parts` is asked for and cannot be.
    """
    if wanted not in WRITER_NAMES:
        raise UsageError(f"--writer {wanted}: auto, parts and spark are known")
    if wanted == "spark":
        return "spark", None
    hindrance = _what_hinders_parts(lake)
    if hindrance is None:
        return "parts", None
    if wanted == "parts":
        raise UsageError(f"--writer parts: {hindrance}; take --writer spark")
    return "spark", f"writing by Spark's own writer: {hindrance}"


def _what_hinders_parts(lake: Lake) -> str | None:
    for name in TABLES:
        refusal = lake.table(name).refusal()
        if refusal is not None:
            return f"table {name} {refusal}"
    return None if _tasks_are_here(lake) else _probe(lake)


def _tasks_are_here(lake: Lake) -> bool:
    return lake.uri.startswith("file:") and str(lake.spark.sparkContext.master).startswith("local")


def _probe(lake: Lake) -> str | None:
    """Lets a task write a file with pyarrow and looks for it with Hadoop's file system; None: it is there."""
    name = f"probe-{uuid.uuid4()}"
    uri = f"{lake.uri}/{WORK_FOLDER}"

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        file_system, folder = lake_file_system(uri)
        file_system.create_dir(folder)
        with file_system.open_output_stream(f"{folder}/{name}") as file:
            file.write(name.encode())

    try:
        lake.spark.range(1, numPartitions=1).mapInArrow(write, "id bigint").collect()
    except Exception as error:  # whatever the storage fails with
        return f"a task cannot write to {uri} with pyarrow ({reason_of(error)})"
    if name not in lake.kernel.names_in(uri):
        return f"a file that a task wrote to {uri} is not seen by the driver"
    lake.kernel.delete(f"{uri}/{name}")
    return None
