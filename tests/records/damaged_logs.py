"""Segments that are damaged."""

from __future__ import annotations

from pathlib import Path

SEGMENTS = Path(__file__).parents[1] / "data" / "segments"
NAMES = [
    "compacted-4.3/__consumer_offsets-0/00000000000000002857.log",
    "compacted-4.3/__consumer_offsets-1/00000000000000003149.log",
    "legacy-2.8/old-format/__consumer_offsets-1/00000000000000000000.log",
    "legacy-2.8/upgraded/__consumer_offsets-3/00000000000000000000.log",
    "transactions-4.3/__consumer_offsets-2/00000000000000000000.log",
]
LOGS = [(SEGMENTS / name).read_bytes() for name in NAMES]
