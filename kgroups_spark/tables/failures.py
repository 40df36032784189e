"""What storage, Delta or a task failed with, in one line for a person: not the stack of three languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException, PythonException

from kgroups_spark.errors import KgroupsError


@contextmanager
def told_in_one_line(what_failed: str) -> Iterator[None]:
    """Turns such a failure in its block into a KgroupsError: what failed, and the innermost reason."""
    try:
        yield
    except (Py4JJavaError, PySparkException, OSError) as error:
        raise KgroupsError(f"{what_failed}: {reason_of(error)}") from error


@contextmanager
def machine_failures_told(what_failed: str) -> Iterator[None]:
    """The same for a whole command, and for what its machine or cluster did: the JVM or a worker was killed, no space.

    What a task's Python raised that is nobody's fault but ours keeps its stack.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        if isinstance(error, PythonException) and not MACHINES_FAULTS.search(reason_of(error)):
            raise
        raise KgroupsError(f"{what_failed}: {reason_of(error)}") from error
    except (Py4JNetworkError, ConnectionError) as error:
        raise KgroupsError(f"{what_failed}: Spark's JVM has ended ({reason_of(error)})") from error


# Errors of Python's and Arrow's own names that come of a disk, a network or too little memory.
MACHINES_FAULTS = re.compile(
    r"^(OSError|PermissionError|FileNotFoundError|Connection\w*|TimeoutError|MemoryError|Arrow\w+)"
)


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
