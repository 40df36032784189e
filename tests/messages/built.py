"""Record columns built from keys and values, as the reader of segments would give them."""

from __future__ import annotations

import numpy as np

from kgroups_spark.records.columns import CONTROL, BatchColumns, RecordColumns


def record_columns(pairs, control=()):
    """One batch a record; `control` names the indices of those in control batches."""
    data, starts = bytearray(), []
    for key, value in pairs:
        for part in (key, value):
            starts.append((len(data), -1 if part is None else len(part)))
            data += part or b""
    n = len(pairs)
    keys, values = np.array(starts[::2], np.int64).reshape(n, 2), np.array(starts[1::2], np.int64).reshape(n, 2)
    ids = np.arange(n)
    attributes = np.zeros(n, np.int16)
    attributes[list(control)] = CONTROL
    int8, int16, int32, int64 = (lambda v, t=t: np.full(n, v, t) for t in (np.int8, np.int16, np.int32, np.int64))
    batches = BatchColumns(
        base_offset=ids,
        last_offset=ids,
        leader_epoch=int32(0),
        magic=int8(2),
        crc=int64(0),
        attributes=attributes,
        max_timestamp=int64(0),
        producer_id=int64(-1),
        producer_epoch=int16(-1),
        record_count=int32(1),
        position=int64(0),
        size=int64(0),
    )
    buffer = np.frombuffer(bytes(data) + bytes(32), np.uint8)
    return RecordColumns(
        buffer, batches, ids.astype(np.int32), ids, int64(0), keys[:, 0], keys[:, 1], values[:, 0], values[:, 1]
    )
