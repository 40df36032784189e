"""Segments read as by older software that knows fewer types: records of the others are quarantined."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np

from kgroups_spark.messages import offset_commits
from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS
from kgroups_spark.sources.files import open_file

# ConsumerGroupMemberMetadata, and offset commits of version 3.
HIDDEN_TYPE, HIDDEN_VERSION = 5, 3


class OldFile:
    """An open segment. While it is open, this process does not know the type and the version."""

    def __init__(self, path: str) -> None:
        self._file: Any = open_file(path)
        self._patches = ExitStack()
        self._patches.enter_context(mock.patch.dict(CONSUMER_OFFSETS))
        CONSUMER_OFFSETS.pop(HIDDEN_TYPE, None)
        self._patches.enter_context(mock.patch.object(offset_commits, "_VERSIONS", range(HIDDEN_VERSION)))
        read = offset_commits.read_offset_values

        def read_old_values(*arguments: Any) -> Any:
            values = read(*arguments)
            values.is_irregular |= values.version == np.int16(HIDDEN_VERSION)
            return values

        self._patches.enter_context(mock.patch.object(offset_commits, "read_offset_values", read_old_values))

    def __enter__(self) -> OldFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._patches.close()
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def open_as_old(path: str) -> Any:
    """Replaces files.open_file."""
    return OldFile(path)
