"""What storage, Delta or a task failed with, in one line for a person: not the stack of three languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kgroups_spark.errors import KgroupsError


@contextmanager
def told_in_one_line(what_failed: str) -> Iterator[None]:
    """Turns such a failure in its block into a KgroupsError: what failed, and the innermost reason."""
    try:
        yield
    except (Py4JJavaError, PySparkException, OSError) as error:
        raise KgroupsError(f"{what_failed}: {reason_of(error)}") from error


def reason_of(error: BaseException) -> str:
    """The innermost reason: a Java root cause, or the last error that a task's Python raised."""
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return " ".join(f"{cause.getMessage() or ''} ({cause.getClass().getSimpleName()})".split())
    text = str(error).strip()
    raised = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception|Invalid): .+)$", text, re.MULTILINE)
    return str(raised[-1]) if raised else text.split("\n", 1)[0]
