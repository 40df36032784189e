"""Messages of the old formats, magic 0 and 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.records.batches import BadBatches
from kgroups_spark.records.columns import BatchColumns, RecordColumns


def decode_legacy(
    data: NDArray[np.uint8], edges: NDArray[np.int64], batches: BatchColumns
) -> tuple[RecordColumns, int]:
    raise BadBatches({i: "magic 0 and 1 are not read yet" for i in range(len(batches))})
