"""Logs read as by older software that knows fewer types: records of the others are quarantined."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from kgroups_spark.messages import offset_commits
from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS

# ConsumerGroupMemberMetadata, and offset commits of version 3.
HIDDEN_TYPE, HIDDEN_VERSION = 5, 3


@contextmanager
def older_software() -> Iterator[None]:
    """In the block, this process does not know the type and the version."""
    read = offset_commits.read_offset_values

    def read_old_values(*arguments: Any) -> Any:
        values = read(*arguments)
        values.is_irregular |= values.version == np.int16(HIDDEN_VERSION)
        return values

    with (
        mock.patch.dict(CONSUMER_OFFSETS),
        mock.patch.object(offset_commits, "_VERSIONS", range(HIDDEN_VERSION)),
        mock.patch.object(offset_commits, "read_offset_values", read_old_values),
    ):
        CONSUMER_OFFSETS.pop(HIDDEN_TYPE)
        yield
