"""The file in which brokers keep high watermarks."""

from __future__ import annotations

from pathlib import Path

TOPIC = "__consumer_offsets"


def write_checkpoint(folder: Path, *offsets: int, name: str = "replication-offset-checkpoint") -> None:
    lines = [f"{TOPIC} {number} {offset}" for number, offset in enumerate(offsets)]
    (folder / name).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
