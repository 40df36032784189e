"""Leader epochs of a partition, from the file that its broker keeps in the folder of the segments.

    <folder>/<topic>-<partition>/leader-epoch-checkpoint

A text: a version (0), the number of entries, then a line `epoch start_offset` for each leader (Kafka:
LeaderEpochCheckpointFile.java 4.3.1). It can only confirm a batch's epoch, because a broker may write it later than the
batch.
"""

from __future__ import annotations

from contextlib import suppress

from kgroups_spark.sources.high_watermarks import is_number
from kgroups_spark.storage.files import UnreadableFolder, path_in, read_text_if_there

LEADER_EPOCHS = "leader-epoch-checkpoint"


def epoch_by_checkpoint(folder: str, offset: int) -> int | None:
    """The leader epoch of that offset, from the folder's file. None: the file does not have the offset, is damaged,
    cannot be read, or does not exist. An audit asks after it has read the log, so a bad file must not end it."""
    with suppress(UnreadableFolder):
        return epoch_in(read_text_if_there(path_in(folder, LEADER_EPOCHS)) or "", offset)
    return None


def epoch_in(text: str, offset: int) -> int | None:
    """The leader epoch of that offset; None: the file does not have it, or is damaged."""
    lines = [line.split() for line in text.splitlines()]
    if lines[:1] != [["0"]] or not all(is_number(word) for line in lines for word in line):
        return None
    entries = [(int(start), int(epoch)) for epoch, start in (line for line in lines[2:] if len(line) == 2)]
    return max((each for each in entries if each[0] <= offset), default=(0, None))[1]
