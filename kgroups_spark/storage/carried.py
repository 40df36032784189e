"""A store that processes here cannot open by pyarrow, and the local folder that stands in for it.

A task gets the files that it reads with its rows, and returns those that it writes with its lines (runner.py). The
driver copies files by Hadoop in both directions. All other code opens URIs of the store, as if it were in reach.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

_stand_ins: dict[str, StandIn] = {}


class StandIn:
    """The folder that stands in for the store at `uri` in this process, until it is closed. Its files are Parquet."""

    def __init__(self, uri: str) -> None:
        self.uri, self._folder = uri, tempfile.mkdtemp(prefix="kgroups-")
        self.close = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def path(self, uri: str) -> str:
        """The local path of a file or folder of the store; its folder exists."""
        found = Path(f"{self._folder}{uri.removeprefix(self.uri)}")
        (found.parent if found.suffix == ".parquet" else found).mkdir(parents=True, exist_ok=True)
        return str(found)

    def uris(self) -> Iterator[str]:
        """The files that are here, by their URIs in the store."""
        for folder, _, names in os.walk(self._folder):
            for name in names:
                yield f"{self.uri}{folder.removeprefix(self._folder)}/{name}"


def stand_in_for(uri: str) -> StandIn:
    """The folder of this process for a store: the one that it has, or a new one."""
    if uri not in _stand_ins:
        _stand_ins[uri] = StandIn(uri)
    return _stand_ins[uri]


def forget(stand_in: StandIn) -> None:
    """From now on this process opens files of the store again."""
    _stand_ins.pop(stand_in.uri, None)
    stand_in.close()


def stand_in_path(location: str) -> str | None:
    """The local path that stands in for a URI in this process; None: it has none."""
    for uri, each in _stand_ins.items():
        if location == uri or location.startswith(f"{uri}/"):
            return each.path(location)
    return None
