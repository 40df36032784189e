"""Log files in memory, by path: read from folders and zip files, and cut into the files of several nights."""

from __future__ import annotations

import io
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kgroups_spark.records.segment import scan_batches

Files = Mapping[str, bytes]


def read_folder(folder: Path) -> dict[str, bytes]:
    """The segments of __consumer_offsets below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.glob("__consumer_offsets-*/*.log"))}


def read_zip(path: Path) -> dict[str, dict[str, bytes]]:
    """Logs of a zip file of `logs/<name>/__consumer_offsets-<p>/<base offset>.log`, by name."""
    logs: dict[str, dict[str, bytes]] = defaultdict(dict)
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.startswith("logs/") and name.endswith(".log"):
                _, log, file = name.split("/", 2)
                logs[log][file] = archive.read(name)
    return dict(logs)


def segments_of(files: Files) -> dict[int, list[str]]:
    """Paths of the segments by offsets partition, in log order."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in sorted(files):
        found[int(path.split("/")[-2].rsplit("-", 1)[1])].append(path)
    return dict(sorted(found.items()))


def checkpoint_of(files: Files) -> dict[str, bytes]:
    """The checkpoint of a broker whose high watermarks are the ends of these logs: it confirms a last batch after a
    gap, as random and cleaned logs have it. None for logs that are damaged or not whole."""
    ends = dict[str, int]()
    for path, data in sorted(files.items()):
        if path.endswith(".log"):
            batches = scan_batches(io.BytesIO(data))
            if int(batches.size.sum()) != len(data) or (np.diff(batches.last_offset) <= 0).any():
                return {}
            folder, _, base = path.removesuffix(".log").rpartition("/")
            ends[folder] = int(batches.last_offset[-1]) + 1 if len(batches) else int(base)
    lines = [f"{' '.join(folder.rsplit('-', 1))} {end}" for folder, end in ends.items()]
    return {"replication-offset-checkpoint": "\n".join(["0", str(len(lines)), *lines, ""]).encode()}


def of_one_leader(files: Files) -> dict[str, bytes]:
    """The same log, as if one leader had written all batches: an audit refuses a log with decreasing leader epochs.
    (The checksum of a batch does not cover its epoch.)"""
    return {path: _of_one_leader(data) for path, data in files.items()}


def _of_one_leader(data: bytes) -> bytes:
    batches, changed = scan_batches(io.BytesIO(data)), bytearray(data)
    for position, magic in zip(batches.position.tolist(), batches.magic.tolist(), strict=True):
        if magic == 2:
            changed[position + 12 : position + 16] = bytes(4)
    return bytes(changed)


@dataclass(frozen=True, order=True)
class Border:
    """A place between two batches: `position` in the segment of that number, and the next offset."""

    segment: int
    position: int
    next_offset: int


# For each offsets partition and night the borders at which its ranges end; the next night continues at the last one.
Cuts = Mapping[int, Sequence[Sequence[Border]]]


def borders(files: Files, partition: int) -> list[Border]:
    """Every place at which an offsets partition's log can be cut, including its start and end."""
    paths = segments_of(files)[partition]
    found = [Border(0, 0, 0)]
    for number, path in enumerate(paths):
        batches = scan_batches(io.BytesIO(files[path]))
        for end, last in zip((batches.position + batches.size).tolist(), batches.last_offset.tolist(), strict=True):
            found.append(Border(number, end, last + 1))
    found.append(Border(len(paths) - 1, len(files[paths[-1]]), found[-1].next_offset))
    return found


def random_cuts(files: Files, rng: np.random.Generator, nights: int, ranges: int) -> dict[int, list[list[Border]]]:
    """Cuts of every partition into `nights` nights of `ranges` ranges, at random borders; some are empty."""
    cuts = {}
    for partition in segments_of(files):
        places = borders(files, partition)
        chosen = sorted(rng.integers(0, len(places), nights * ranges - 1).tolist()) + [len(places) - 1]
        ends = [places[i] for i in chosen]
        cuts[partition] = [ends[i : i + ranges] for i in range(0, len(ends), ranges)]
    return cuts


def files_of_nights(files: Files, cuts: Cuts) -> Iterator[dict[str, bytes]]:
    """The log's files for each night: up to the night's last border, with a segment for each range."""
    segments = {partition: _Segments(files, partition, cuts[partition]) for partition in cuts}
    for night in range(max(map(len, cuts.values()))):
        yield {path: data for each in segments.values() for path, data in each.until(night)}


class _Segments:
    """A partition's segments, rolled at the end of each range of a night."""

    def __init__(self, files: Files, partition: int, nights: Sequence[Sequence[Border]]) -> None:
        self._files, self._paths, self._nights = files, segments_of(files)[partition], nights
        self._rolls = sorted({end for ends in nights for end in ends[:-1]})

    def until(self, night: int) -> Iterator[tuple[str, bytes]]:
        ends = [ends[-1] for ends in self._nights[: night + 1] if ends]
        end = max(ends, default=Border(0, 0, 0))
        for number, path in enumerate(self._paths[: end.segment + 1]):
            stop = end.position if number == end.segment else len(self._files[path])
            starts = [(0, path), *(self._rolled(path, roll) for roll in self._rolls if roll.segment == number)]
            yield from self._pieces(path, {at: name for at, name in starts if at < max(stop, 1)}, stop)

    def _rolled(self, path: str, roll: Border) -> tuple[int, str]:
        return roll.position, f"{path.rsplit('/', 1)[0]}/{roll.next_offset:020d}.log"

    def _pieces(self, path: str, names: Mapping[int, str], stop: int) -> Iterator[tuple[str, bytes]]:
        starts = sorted(names)
        for start, end in zip(starts, [*starts[1:], stop], strict=True):
            yield names[start], self._files[path][start:end]
