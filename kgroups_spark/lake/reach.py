"""How tasks reach the lake: by pyarrow, or by Spark and Hadoop, which then carry the files (carrier.py)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.fs

from kgroups_spark.errors import UsageError
from kgroups_spark.lake.failures import reason_of
from kgroups_spark.lake.lake import Lake
from kgroups_spark.runner import line_batch, numbers, numbers_in
from kgroups_spark.storage.files import file_system
from kgroups_spark.tables.layout import WORK_FOLDER
from kgroups_spark.tables.schemas import TABLES

# The number of workers that are probed at once, so that one without a mount, a package or an access key is among them.
MOST_PROBES = 16


def make_writable(lake: Lake) -> str | None:
    """Lets tasks reach the lake's files; returns a note if they must be carried.

    Raises UsageError for tables that cannot take plain files, and for a local folder that the machines do not share.
    """
    for name in {*lake.place.names()}.intersection(TABLES):  # a deleted table is created again
        log = lake.table(name)
        refusal = log.refusal()
        if refusal is None and log.path != f"{lake.uri}/{name}":
            refusal = f"is not in {lake.uri} under its name"
        if refusal is not None:
            raise UsageError(
                f"the lake at {lake.location}: table {name} {refusal}, but audits add plain Parquet files to tables in "
                "one folder: undo that, or name another lake"
            )
    hindrance = None if _tasks_are_here(lake) else probe(lake)
    if hindrance is None:
        return None
    if lake.uri.startswith("file:"):
        raise UsageError(f"the lake at {lake.location} is not a folder that the workers share: {hindrance}")
    lake.carry()
    return f"Spark and Hadoop carry the lake's files: {hindrance}"


def make_readable(lake: Lake) -> None:
    """Lets tasks read the lake's files."""
    if not _tasks_are_here(lake) and (lake.stand_in is not None or not _tasks_see(lake)):
        lake.carry()


def _tasks_see(lake: Lake) -> bool:
    uri = f"{lake.uri}/audits/_delta_log"
    tasks = min(lake.runner.slots, MOST_PROBES)

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage, folder = file_system(uri)
        if storage.get_file_info(folder).type != pa.fs.FileType.Directory:
            raise FileNotFoundError(uri)
        yield line_batch([])

    try:
        lake.runner.map(look, numbers(tasks))
    except Exception:  # any error of the storage
        return False
    return True


def _tasks_are_here(lake: Lake) -> bool:
    return lake.uri.startswith("file:") and lake.runner.is_here


def probe(lake: Lake) -> str | None:
    """Each task writes a file with pyarrow, and the driver looks for the files with Hadoop. None: all files are there;
    otherwise the reason as the end of a sentence."""
    name, uri = f"probe-{uuid.uuid4()}", f"{lake.uri}/{WORK_FOLDER}"
    tasks = min(lake.runner.slots, MOST_PROBES)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers_in(batches):
            storage, folder = file_system(uri)
            storage.create_dir(folder)
            with storage.open_output_stream(f"{folder}/{name}-{number}") as file:
                file.write(name.encode())
        yield line_batch([])

    try:
        lake.runner.map(write, numbers(tasks))
    except Exception as error:  # any error of the storage
        return f"a task cannot write to {uri} with pyarrow ({reason_of(error)})"
    seen = {found for found in lake.store.names_in(uri) if found.startswith(name)}
    for found in seen:
        lake.store.delete(f"{uri}/{found}")
    return None if len(seen) == tasks else f"a file that a task wrote to {uri} is not seen by the driver"
