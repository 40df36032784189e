"""A log in a folder, as its broker writes, rolls and cleans it between audits and while they run."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from tests.logs.cleaner import Files, GrowingLog, batches_of, clean
from tests.logs.log_files import segments_of
from tests.nights.cleaned_nights import random_night, write_folder


class BrokersLog:
    """The log and its folder. `read_to`: by partition the first offset that the nights before did not have.

    The cleaner removes nothing from there on: what an audit reads then does not depend on when it reads.
    """

    def __init__(self, written: Files, folder: Path, rng: random.Random) -> None:
        self.log, self.folder, self.random = GrowingLog(written), folder, rng
        self.read_to: dict[int, int] = {}

    def grow(self, nights_left: int) -> None:
        """The broker writes until the next night; for the last night it writes all that is left."""
        self.read_to = {partition: self._end(paths) for partition, paths in segments_of(self.log.files).items()}
        random_night(self.log, np.random.default_rng(self.random.getrandbits(32)), nights_left)
        write_folder(self.folder, self.log.files)

    def swap(self) -> str:
        """Puts other files in the place of segments, by the names and in the order in which a broker does it; which
        change it was."""
        changes = {"cleaned": clean(self.log.files, up_to=self.read_to), "merged": merged(self.log.files)}
        possible = [name for name, files in changes.items() if files != self.log.files]
        change = self.random.choice(possible) if possible else "copied"
        self._replace(changes.get(change, self.log.files))
        return change

    def _end(self, paths: list[str]) -> int:
        found = [batch.last_offset + 1 for path in paths for batch in batches_of(self.log.files[path])]
        return max(found, default=0)

    def _replace(self, files: Files) -> None:
        """As LocalLog.replaceSegments; a file of the same bytes becomes another file, too."""
        before, self.log.files = self.log.files, dict(files)
        for paths in segments_of(before).values():
            for path in paths:
                if path in files:
                    cleaned = self.folder / f"{path}.cleaned"
                    cleaned.write_bytes(files[path])
                    cleaned.rename(self.folder / f"{path}.swap")
                (self.folder / path).rename(self.folder / f"{path}.deleted")
            for path in paths:
                if path in files:
                    (self.folder / f"{path}.swap").rename(self.folder / path)
                (self.folder / f"{path}.deleted").unlink()


def merged(files: Files) -> dict[str, bytes]:
    """The rolled segments of each partition as one, under the first one's name: a cleaner that finds nothing to
    remove."""
    found = {}
    for *rolled, active in segments_of(files).values():
        if rolled:
            found[rolled[0]] = b"".join(files[path] for path in rolled)
        found[active] = files[active]
    return found
