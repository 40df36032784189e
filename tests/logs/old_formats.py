"""Logs as brokers with message format 0 (up to 0.9) or 1 (up to 0.10) store them."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np

from tests.logs.cleaner import Batch, batches_of
from tests.logs.log_files import Files
from tests.records.build import message

GZIP = 1


def in_old_format(files: Files, magic: int, rng: np.random.Generator) -> dict[str, bytes]:
    """The same log without transactions, which these formats do not have. Some batches are compressed messages, the
    others have a message for each record."""
    return {path: b"".join(_messages(one, magic, rng) for one in batches_of(data)) for path, data in files.items()}


def _messages(batch: Batch, magic: int, rng: np.random.Generator) -> bytes:
    records = [] if batch.is_transactional or batch.is_control else batch.records()
    if not records or rng.random() < 0.7:
        return b"".join(
            message(each.offset, each.key, each.value, magic=magic, **_time(magic, each.timestamp)) for each in records
        )
    first = records[0].offset if magic else 0  # offsets in a message of format 0 are absolute
    inner = b"".join(
        message(each.offset - first, each.key, each.value, magic=magic, **_time(magic, each.timestamp))
        for each in records
    )
    times = _time(magic, max(each.timestamp for each in records))
    return message(records[-1].offset, None, gzip.compress(inner), magic=magic, attributes=GZIP, **times)


def _time(magic: int, timestamp: int) -> dict[str, Any]:
    return {"timestamp": timestamp} if magic else {}
