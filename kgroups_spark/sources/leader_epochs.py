"""Leader epochs of a partition, from the file that its broker keeps in the folder of the segments.

    <folder>/<topic>-<partition>/leader-epoch-checkpoint

A text: a version (0), the number of entries, then a line `epoch start_offset` for each leader (Kafka:
LeaderEpochCheckpointFile.java 4.3.1). It can only confirm a batch's epoch, because a broker may write it later than the
batch.
"""

from __future__ import annotations

LEADER_EPOCHS = "leader-epoch-checkpoint"


def epoch_in(text: str, offset: int) -> int | None:
    """The leader epoch of that offset; None: the file does not have it, or is damaged."""
    lines = [line.split() for line in text.splitlines()]
    if lines[:1] != [["0"]] or not all(word.isdecimal() for line in lines for word in line):
        return None
    entries = [(int(start), int(epoch)) for epoch, start in (line for line in lines[2:] if len(line) == 2)]
    return max((each for each in entries if each[0] <= offset), default=(0, None))[1]
