"""Tables of a lake as tasks read them: the files of a version, from which each shard takes its own rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from kgroups_spark.lake.parts_reader import dataset_of
from kgroups_spark.offsets.ranges import SlotRange, from_border
from kgroups_spark.tables.schemas import arrow_schema

# The number of records whose rows a task reads together: of neighbouring shards, or of some slots of a large one. Some
# 200 bytes each. Each lot opens all files again: of a lake that has those of every night, of a night only its own.
OF_HISTORY, OF_NIGHT = 1_000_000, 1 << 17
# A task has one core. Several files are requested at a time, because storage may answer late.
_SCAN = {"use_threads": False, "fragment_readahead": 4, "batch_readahead": 1}


def shard_column(table: str) -> str:
    """The column with the shard of a table's rows: the partition of their log."""
    return "state_partition" if "state_partition" in arrow_schema(table).names else "offsets_partition"


def shards_in_file(table: str, stats: Mapping[str, Any]) -> tuple[int, int] | None:
    """The least and the greatest shard in a file of a table, by its statistics in Delta's log; None: not known."""
    lowest, highest = (stats.get(which, {}).get(shard_column(table)) for which in ("minValues", "maxValues"))
    return None if lowest is None or highest is None else (lowest, highest)


def has_shard(shards: tuple[int, int] | None, number: int) -> bool:
    """Whether there may be rows of a shard between the least and the greatest one; None: not known."""
    return shards is None or shards[0] <= number <= shards[1]


class StoredFile(NamedTuple):
    """A file of a table; `shards` as shards_in_file returns them."""

    path: str
    shards: tuple[int, int] | None

    def may_have(self, numbers: Collection[int]) -> bool:
        """Whether the file may have rows of any of these shards."""
        return any(has_shard(self.shards, number) for number in numbers)


@dataclass(frozen=True)
class StoredTable:
    """A version of a table. `label` distinguishes versions of one table."""

    label: str
    name: str
    uri: str
    columns: tuple[str, ...]
    files: tuple[StoredFile, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(map(arrow_schema(self.name).field, self.columns))

    @property
    def shard(self) -> str:
        return shard_column(self.name)

    def uris(self, numbers: Collection[int]) -> Iterator[str]:
        """The files that may have rows of these shards."""
        return (f"{self.uri}/{unquote(file.path)}" for file in self.files if file.may_have(numbers))

    def of_shards(self, numbers: Collection[int]) -> pa.Table:
        paths = [file.path for file in self.files if file.may_have(numbers)]
        dataset = dataset_of(self.name, self.uri, paths, as_dictionaries=True)
        return dataset.to_table(list(self.columns), filter=pc.field(self.shard).isin(sorted(numbers)), **_SCAN)

    def of_slots(self, number: int, slots: SlotRange, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of these slots of a shard in its files; `columns` None: all columns."""
        wanted = pc.field(self.shard) == number
        if slots.low is not None:
            wanted &= from_border(slots.low)
        if slots.high is not None:
            wanted &= ~from_border(slots.high)
        paths = [file.path for file in self.files if file.may_have([number])]
        # Arrow compares no condition with the statistics of dictionary columns: plain columns choose the row groups.
        plain = dataset_of(self.name, self.uri, paths)
        dataset = dataset_of(self.name, self.uri, paths, as_dictionaries=True)
        if paths:
            chosen = ((file.path, file.subset(wanted, plain.schema).row_groups) for file in plain.get_fragments())
            make = partial(dataset.format.make_fragment, filesystem=dataset.filesystem)
            fragments = [make(path, row_groups=[group.id for group in groups]) for path, groups in chosen if groups]
            dataset = pa.dataset.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)
        return dataset.to_table(list(columns or self.columns), filter=wanted, **_SCAN)


@dataclass(frozen=True)
class TaskShards:
    """The shards of each task, in lots that are read together, and the number of records in each.

    A lake of many nights has as many files, each with rows of most shards. Opening them for every shard would cost more
    than everything else.
    """

    shards: tuple[tuple[int, ...], ...]
    records: Mapping[int, int]
    at_once: int = OF_HISTORY

    def lot_of(self, offsets_partition: int) -> tuple[int, ...]:
        """The shards that are read together with this one, this one included, ascending."""
        of_task = next(of_task for of_task in self.shards if offsets_partition in of_task)
        lot: list[int] = []
        records = 0
        for number in of_task:
            if lot and records + self.records[number] > self.at_once:
                if offsets_partition in lot:
                    break
                lot, records = [], 0
            lot.append(number)
            records += self.records[number]
        return tuple(lot)

    def is_large(self, offsets_partition: int) -> bool:
        """Whether the shard may have too many commits to be read together."""
        return self.records[offsets_partition] > self.at_once
