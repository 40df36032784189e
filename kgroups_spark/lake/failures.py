"""A failure of storage, Delta or a task as one line for people, without the stacks of three languages."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from kgroups_spark.errors import KgroupsError


def spark_errors() -> Any:
    """The errors of a failure in Spark or its JVM, for `except`; none in a process that has not loaded it."""
    if "pyspark.sql" not in sys.modules:
        return ()
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return Py4JJavaError, PySparkException


@contextmanager
def reported_in_one_line(what_failed: str) -> Iterator[None]:
    """Within the block, turns such a failure into a KgroupsError with `what_failed` and the innermost reason."""
    try:
        yield
    except (*spark_errors(), OSError) as error:
        raise KgroupsError(f"{what_failed}: {reason_of(error)}") from error


@contextmanager
def machine_failures_reported(what_failed: str) -> Iterator[None]:
    """The same for a whole command and failures of its machine or cluster: a killed JVM or worker, a full disk.

    The message of a KgroupsError in a task is shown unchanged. A bug of ours in a task's Python keeps its stack.
    """
    try:
        yield
    except Exception as error:
        is_of_machine = isinstance(error, OSError | MemoryError)
        reason = _of_spark(error) if spark_errors() else str(error) or "no memory" if is_of_machine else None
        if reason is None:
            raise
        raise KgroupsError(f"{what_failed}: {reason}") from error


def _of_spark(error: Exception) -> str | None:
    """The reason of a failure in Spark or its JVM; None: it was none."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PythonException

    reason = reason_of(error)
    if isinstance(error, spark_errors()):
        if not isinstance(error, PythonException) or MACHINES_FAULTS.search(reason) or _reported_by_task(str(error)):
            return reason
        return None
    has_ended = type(error) is not Py4JError or NO_ANSWER.fullmatch(str(error)) is not None
    return f"Spark's JVM has ended ({reason})" if isinstance(error, Py4JError | ConnectionError) and has_ended else None


# py4j's error if the connection broke while it waited for an answer; else it raises Py4JNetworkError. If Java answers
# that it has no such class or method, the error has other words, or a trace.
NO_ANSWER = re.compile(r"An error occurred while calling \S+")
# Java's messages for a socket or a process with a vanished other side, such as a killed worker.
BROKEN_CONNECTIONS = ("Broken pipe", "Connection reset", "Connection reset by peer", "Stream closed")
# Python's and Arrow's errors that a disk, a network or a lack of memory causes.
MACHINES_FAULTS = re.compile(
    r"^(OSError|PermissionError|FileNotFoundError|Connection\w*|TimeoutError|MemoryError|Arrow\w+)"
)


def reason_of(error: BaseException) -> str:
    """The innermost reason: a Java root cause, or the last error that a task's Python raised."""
    cause: Any = getattr(error, "java_exception", None)
    if cause is not None:
        while cause.getCause() is not None:
            cause = cause.getCause()
        message, kind = str(cause.getMessage() or ""), cause.getClass().getSimpleName()
        if kind == "TableNotFoundException":  # the folder is there, the log is not
            return (
                f"{message.rstrip('.')}: restore its _delta_log; or remove the folder, and kgroups audit makes the "
                "table again if the other tables have its rows"
            )
        if message in BROKEN_CONNECTIONS:
            return f"the connection to a Python worker or to storage broke ({message}, {kind})"
        return _reported_by_task(message) or " ".join(f"{message} ({kind})".split())
    text = str(error).strip()
    if reported := _reported_by_task(text):
        return reported
    raised = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception|Invalid): .+)$", text, re.MULTILINE)
    return str(raised[-1]) if raised else text.split("\n", 1)[0]


def _reported_by_task(text: str) -> str | None:
    """The message of a KgroupsError that ended a task; None: another error. `text`: Spark's error with Python's
    stack."""
    raised = re.findall(r"^(kgroups_spark(?:\.\w+)*)\.(\w+): (.+)$", text, re.MULTILINE)
    if not raised:
        return None
    module, name, message = raised[-1]
    kind = getattr(import_module(module), name, None)
    return str(message) if isinstance(kind, type) and issubclass(kind, KgroupsError) else None
