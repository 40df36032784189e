"""The writer of an audit: `auto` takes `parts` if tasks can write plain files by pyarrow to the lake.

In a catalog's schema `auto` takes `spark`, because the catalog decides who may write there. With `parts` the driver
also reads the files by pyarrow; choosing it allows that.
"""

from __future__ import annotations

from typing import Literal

from kgroups_spark.errors import UsageError
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.reach import require_shared, what_hinders_pyarrow
from kgroups_spark.tables.schemas import TABLES

WriterName = Literal["parts", "spark"]


def choose_writer(lake: Lake, wanted: str) -> tuple[WriterName, str | None]:
    """The writer for `--writer auto|parts|spark`, and the reason if `auto` had to fall back to `spark`.

    Raises UsageError if `parts` is wanted but impossible, and for a lake that no writer can write.
    """
    if wanted == "spark" or (wanted == "auto" and lake.is_in_catalog):
        require_shared(lake)
        return "spark", None
    hindrance = _what_hinders_parts(lake)
    if hindrance is None:
        if lake.is_in_catalog:
            lake.try_files()
        return "parts", None
    if wanted == "parts":
        raise UsageError(f"--writer parts: {hindrance}; take --writer spark")
    return "spark", f"writing by Spark's own writer: {hindrance}"


def _what_hinders_parts(lake: Lake) -> str | None:
    there = set(lake.place.names())  # a deleted table is created again
    for name in there.intersection(TABLES):
        log = lake.table(name)
        refusal = log.refusal()
        if refusal is not None:
            return f"table {name} {refusal}"
        if log.path != f"{lake.uri}/{name}":
            return f"table {name} is not in {lake.uri} under its name"
    return what_hinders_pyarrow(lake)
