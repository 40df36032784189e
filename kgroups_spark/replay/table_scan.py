"""A function over the rows of stored tables, in tasks, file by file. The driver gets its results as lines."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.parts import dataset_of
from kgroups_spark.lake.store import TableFile
from kgroups_spark.spark.runner import Line, line_batch, numbers, numbers_in

# (table, path of a file as in the table's log, its rows in lots) -> the results.
Look = Callable[[str, str, Iterator[pa.Table]], Iterator[Line]]
# Rough number of rows in a lot; each file has its own lots.
ROWS_PER_LOT = 1 << 17
# Enough work for one task.
BYTES_PER_TASK, FILES_PER_TASK = 64 << 20, 200


def lots_of(
    dataset: pa.dataset.Dataset, columns: Sequence[str], where: pc.Expression | None = None
) -> Iterator[pa.Table]:
    """The rows of a dataset, always in the same order; small row groups together."""
    few: list[pa.RecordBatch] = []
    for batch in dataset.to_batches(columns=[*columns], filter=where, use_threads=False):
        if batch.num_rows:
            few.append(batch)
        if sum(each.num_rows for each in few) >= ROWS_PER_LOT:
            yield pa.Table.from_batches(few)
            few = []
    if few:
        yield pa.Table.from_batches(few)


def tasks_for(slots: int, files: Iterable[TableFile]) -> int:
    """The number of tasks that is worth their start-up cost."""
    sizes = [file.size for file in files]
    wanted = 1 + sum(sizes) // BYTES_PER_TASK + len(sizes) // FILES_PER_TASK
    return min(wanted, 2 * slots)


def scan_files(
    lake: Lake, files: Mapping[str, Sequence[TableFile]], columns: Mapping[str, Sequence[str]], look: Look
) -> list[Line]:
    """The results of `look` at these columns of the tables' files; one task handles each file."""
    folders = {name: lake.table(name).path for name in files}
    places = [(name, file.path) for name, some in files.items() for file in sorted(some, key=lambda file: -file.size)]
    tasks = tasks_for(lake.runner.slots, itertools.chain.from_iterable(files.values()))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers_in(batches):
            for name, path in places[number::tasks]:
                lots = lots_of(dataset_of(name, folders[name], [path]), columns[name])
                yield line_batch([*look(name, path, lots)])

    uris = [f"{folders[name]}/{unquote(path)}" for name, path in places]
    return lake.runner.map(run, numbers(tasks), [uris[n::tasks] for n in range(tasks)]) if places else []


def scan_tables(lake: Lake, columns: Mapping[str, Sequence[str]], look: Look) -> list[Line]:
    """The results of `look` at these columns of whole tables, including replaced rows."""
    return scan_files(lake, {name: lake.table(name).files() for name in columns}, columns, look)
