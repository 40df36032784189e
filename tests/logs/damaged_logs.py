"""Logs with damage in them."""

from __future__ import annotations

import random

from tests.logs.log_files import Files


def damaged(files: Files, rng: random.Random) -> Files:
    """The files with one segment damaged: bytes flipped, overwritten, removed or inserted."""
    path = rng.choice(sorted(files))
    data = bytearray(files[path])
    for _ in range(rng.choice([1, 1, 3])):
        at, size = rng.randrange(len(data) + 1), rng.choice([1, 8, 61, 700])
        match rng.randrange(4):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at : at + size] = rng.choice([bytes(size), b"\xff" * size, rng.randbytes(size)])
            case 2:
                del data[at : at + size]
            case _:
                data[at:at] = rng.randbytes(size)
    return {**files, path: bytes(data)}
