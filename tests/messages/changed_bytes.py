"""Bytes that are changed at random."""

from __future__ import annotations


def changed(chance, data):
    """A copy that is cut, longer, or has some other byte."""
    at = chance.randrange(len(data) + 1)
    kind = chance.randrange(3)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + chance.randbytes(chance.randrange(1, 4)) + data[at:]
    return data[:at] + bytes([chance.choice([0, 1, 2, 127, 128, 255, chance.randrange(256)])]) + data[at + 1 :]
