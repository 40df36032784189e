"""The committed offsets of the replicas in a broker's log directory: records above them may be lost if a leader fails.

    replication-offset-checkpoint       high watermark of each replica in the directory, written every 5 seconds
                                        (replica.high.watermark.checkpoint.interval.ms)
    cleaner-offset-checkpoint           the offset to which the cleaner has cleaned each log; it cleans only committed
                                        records

Both are text: a version (0), the number of entries, then a line `topic partition offset` for each. Kafka:
CheckpointFile.java 4.3.1, OffsetCheckpointFile.java; the broker takes a directory with a malformed one out of service.
"""

from __future__ import annotations

from kgroups_spark.errors import UsageError
from kgroups_spark.storage.files import path_in, read_text_if_there

HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_TO = "cleaner-offset-checkpoint"

Place = tuple[str, int]  # topic and partition


class BadCheckpoint(UsageError):
    """A malformed checkpoint file."""


def committed_offsets(log_dir: str) -> dict[Place, int] | None:
    """By topic and partition the offset below which all records are committed, from a log directory's checkpoint files;
    None: there is no checkpoint of high watermarks, it is empty (as after a power failure), or it has more entries than
    it says or two of one partition (two files in one). Raises BadCheckpoint, UnreadableFolder.

    The high watermark is up to five seconds old, so the cleaned range may reach further. The cleaner dropped records
    there because of newer ones, so these must be read, too.
    """
    path = path_in(log_dir, HIGH_WATERMARKS)
    text = read_text_if_there(path)
    found = None if text is None else parse_checkpoint(text, path)
    if found is None:
        return None
    path = path_in(log_dir, CLEANED_TO)
    cleaned = read_text_if_there(path)
    for place, offset in (parse_checkpoint(cleaned or "", path) or {}).items():
        if place in found:
            found[place] = max(found[place], offset)
    return found


def parse_checkpoint(text: str, path: str) -> dict[Place, int] | None:
    """The entries of a checkpoint file; None: it is empty, or has too many. `path` is for messages. Raises
    BadCheckpoint."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    if lines[0].strip() != "0":
        raise _bad(path, f"line 1 is {lines[0][:40]!r}, version 0 is known")
    if len(lines) < 2 or not is_number(lines[1].strip()):
        raise _bad(path, f"line 2 is {lines[1][:40]!r}, not a number of entries" if len(lines) > 1 else "it ends early")
    entries: dict[Place, int] = {}
    for number, line in enumerate(lines[2:], start=3):
        words = line.split()
        if len(words) != 3 or not is_number(words[1]) or not is_number(words[2]):
            raise _bad(path, f"line {number} is {line[:80]!r}, not a topic, a partition and an offset")
        entries[words[0], int(words[1])] = int(words[2])
    if len(lines) - 2 > int(lines[1]) or len(entries) < len(lines) - 2:
        return None
    if len(entries) != int(lines[1]):
        raise _bad(path, f"it has {len(entries)} entries, and says {int(lines[1])}")
    return entries


def is_number(word: str) -> bool:
    """Whether the word of a checkpoint file is a number of at most 19 digits, as a long has."""
    return word.isascii() and word.isdigit() and len(word) < 20


def _bad(path: str, why: str) -> BadCheckpoint:
    return BadCheckpoint(
        f"{path} is damaged: {why}. It says which records are committed: copy it again. Without the file everything "
        "is read, also what may vanish when a leader fails"
    )
