"""Whether tasks reach the lake by pyarrow, which `parts` needs, and whether all machines share it, which every writer
needs."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.fs

from kgroups_spark.errors import UsageError
from kgroups_spark.lake.failures import reason_of
from kgroups_spark.lake.lake import Lake
from kgroups_spark.runner import line_batch, numbers, numbers_in
from kgroups_spark.storage.files import file_system
from kgroups_spark.tables.layout import WORK_FOLDER

# The number of workers that are probed at once, so that one without a mount, a package or an access key is among them.
MOST_PROBES = 16


def what_hinders_pyarrow(lake: Lake) -> str | None:
    """The reason why tasks cannot write the lake's files by pyarrow, as the end of a sentence; None: they can.

    Raises UsageError for a local folder that the machines do not share: no writer can write a lake there.
    """
    if _tasks_are_here(lake):
        return None
    hindrance = probe(lake)
    if hindrance is not None and lake.uri.startswith("file:"):
        raise UsageError(f"the lake at {lake.location} is not a folder that the workers share: {hindrance}")
    return hindrance


def require_shared(lake: Lake) -> None:
    """Raises UsageError as what_hinders_pyarrow, which it calls only for local folders."""
    if lake.uri.startswith("file:"):
        what_hinders_pyarrow(lake)


def tasks_read(lake: Lake, names: Iterable[str]) -> bool:
    """Whether tasks can read the files of these tables by pyarrow, and the files alone are the rows (no deletion
    vectors)."""
    if not lake.files_in_reach or any(lake.table(name).refusal() for name in names):
        return False
    return _tasks_are_here(lake) or _tasks_see(lake)


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
