"""Work whose failure must not end an audit: looking for findings, and reporting the result.

An audit has committed everything before it looks for findings, and its ledger row before the summary. A defect there
costs only the finding or the line, and a note names it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kgroups_spark.errors import KgroupsError

Result = TypeVar("Result")

# Exceptions that an attempt survives. Tests make it empty, so that a defect fails them.
SURVIVED: tuple[type[Exception], ...] = (Exception,)


def attempt(what: str, make: Callable[[], Result]) -> tuple[Result | None, str | None]:
    """The result of `make`, and None; or None, and a note that `what` failed.

    If storage or a machine failed (KgroupsError, OSError), the note has the reason. Otherwise it has the exception and
    its place in the code, without its text, which may hold names from the log.
    """
    try:
        return make(), None
    except SURVIVED as error:
        if isinstance(error, (KgroupsError, OSError)):
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            return None, f"{what} failed: {reason}; the rest of the audit counts"
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
        return (
            None,
            f"{what} failed ({where}): this is a defect of kgroups, please report it; the rest of the audit counts",
        )
