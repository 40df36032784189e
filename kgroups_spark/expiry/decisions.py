"""Rows of the tables of decisions, offset_expiry and group_expiry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.expiry.matching import Flags
from kgroups_spark.expiry.moment import timestamp
from kgroups_spark.tables.columns import STRING
from kgroups_spark.tables.rows import by_name, constant
from kgroups_spark.tables.schemas import arrow_schema


def decisions(
    name: str, of: pa.Table, decided: Mapping[str, pa.Array], *, as_of: int, retention_ms: int, audit_id: int
) -> pa.Table:
    """A row of the table `name` for each row of `of`: the `decided` columns, the clean-up's moment (epoch ms), its
    retention and audit, and all other columns from `of`."""
    rows = of.num_rows
    columns = {
        "audit_id": constant(audit_id, rows, pa.int64()),
        "as_of": pa.repeat(timestamp(as_of), rows),
        "retention_ms": constant(retention_ms, rows, pa.int64()),
        **decided,
    }
    return pa.table(by_name(of) | columns, arrow_schema(name))


def texts(codes: NDArray[np.int64] | Flags, words: Sequence[str], mask: Flags | None = None) -> pa.Array:
    """The word of each code; null if masked."""
    return pa.array(words, STRING).take(pa.array(codes.astype(np.int64), mask=mask))
