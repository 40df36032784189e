"""A log that is cut back and continues with other batches, as after an unclean leader election."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np

from tests.logs.cleaner import Batch, Files, batches_of


def batches_in(files: Files) -> list[Batch]:
    """All batches of the current format of a log, in order."""
    return [batch for path in sorted(files) for batch in batches_of(files[path]) if batch.magic == 2]


def at(batch: Batch, base_offset: int, leader_epoch: int) -> Batch:
    """The batch with another offset and epoch; its checksum covers neither."""
    data = struct.pack(">q", base_offset) + batch.data[8:12] + struct.pack(">i", leader_epoch) + batch.data[16:]
    last = base_offset + batch.last_offset - batch.base_offset
    return batch._replace(base_offset=base_offset, last_offset=last, leader_epoch=leader_epoch, data=data)


@dataclass
class CutLog:
    """One offsets partition, with leaders that write the batches of `source`, one after the other."""

    source: list[Batch]
    partition: int = 0
    epoch: int = 0
    batches: list[Batch] = field(default_factory=list)
    rolls: set[int] = field(default_factory=set)

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def grow(self, count: int) -> None:
        """Writes `count` more batches by the present leader; the next segment may begin at any of them."""
        for _ in range(min(count, len(self.source))):
            self.batches.append(at(self.source.pop(0), self.end, self.epoch))

    def elect(self, kept: int) -> None:
        """Another leader has the first so many batches alone, or has seen all of them."""
        del self.batches[kept:]
        self.rolls = {at for at in self.rolls if at <= self.end}
        self.epoch += 1

    def roll(self) -> None:
        self.rolls.add(self.end)

    @property
    def files(self) -> dict[str, bytes]:
        """The segments as they are now."""
        starts = sorted({0, *self.rolls})
        found = {f"__consumer_offsets-{self.partition}/{start:020d}.log": b"" for start in starts}
        for batch in self.batches:
            start = max(start for start in starts if start <= batch.base_offset)
            found[f"__consumer_offsets-{self.partition}/{start:020d}.log"] += batch.data
        return found


def random_night(log: CutLog, rng: np.random.Generator, *, cut: bool) -> None:
    """Writes to the log until the next audit: it grows and rolls, in one of two nights under a new leader. `cut`:
    then comes another leader, which lacks the newest batches."""
    log.grow(int(rng.integers(0, 4)))
    if rng.random() < 0.5:
        log.elect(len(log.batches))
        log.grow(int(rng.integers(0, 4)))
    if cut:
        log.elect(int(rng.integers(1, max(2, len(log.batches)))))
        log.grow(int(rng.integers(1, 5)))
    if rng.random() < 0.4:
        log.roll()
    log.grow(int(rng.integers(0, 3)))
