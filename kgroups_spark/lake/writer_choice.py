"""Which writer an audit takes: `auto` takes `parts` where plain files by pyarrow are right and reach the lake.

In a catalog's schema it takes `spark`: who may write there is the catalog's to say. With `parts` the driver reads the
files by pyarrow, too: the choice says that we may touch them.
"""

from __future__ import annotations

from typing import Literal

from kgroups_spark.errors import UsageError
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.reach import require_shared, what_hinders_pyarrow
from kgroups_spark.tables.schemas import TABLES

WriterName = Literal["parts", "spark"]
WRITER_NAMES = ("auto", "parts", "spark")


def choose_writer(lake: Lake, wanted: str) -> tuple[WriterName, str | None]:
    """The writer for `--writer auto|parts|spark`, and why it is `spark` where `auto` had to fall back.

    Raises UsageError when `parts` is asked for and cannot be, and for a lake that is no writer's.
    """
    if wanted not in WRITER_NAMES:
        raise UsageError(f"--writer {wanted}: auto, parts and spark are known")
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
    there = set(lake.place.names())  # a table that somebody deleted is created again
    for name in there.intersection(TABLES):
        log = lake.table(name)
        refusal = log.refusal()
        if refusal is not None:
            return f"table {name} {refusal}"
        if log.path != f"{lake.uri}/{name}":
            return f"table {name} does not lie in {lake.uri} under its name"
    return what_hinders_pyarrow(lake)
