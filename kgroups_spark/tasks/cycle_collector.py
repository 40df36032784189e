"""Python's cycle collector, kept out of work that makes no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_cycle_collector() -> Iterator[None]:
    """Disables the collector within the block.

    Groups and offsets are trees, freed when their last reference goes. The collector would search a whole shard for
    cycles, again and again while it grows, which costs two fifths of an audit's Python time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
