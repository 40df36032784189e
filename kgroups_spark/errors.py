"""Errors due to the user's input or environment: shown as one message, never as a stack trace."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar


class KgroupsError(Exception):
    """An error that a person can act on: the input, what is wrong with it, what to do; several texts are lines. Exit
    code 1. Names are as in the log: who prints it spells out characters that a terminal would obey."""

    exit_code = 1

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(map(str, self.args))

    def __str__(self) -> str:
        return "\n".join(self.lines)


class NotReadable(KgroupsError):
    """A partition cannot be read to its end now. It is left to a later audit; other partitions are not affected."""


class UsageError(KgroupsError):
    """An invalid command or option, found before work starts, so nothing is written. Exit code 2."""

    exit_code = 2


# The package's extras: how to install them, and whether the Spark that one brings is there.


PROJECT = "kgroups-spark"
IMPORTED_FROM = Path(str(files("kgroups_spark"))).parent
SPARK = "4.2"  # the release that Delta's jars, which we call, are made for


def how_to_install(extra: str) -> str:
    """The command for a shell, without an index for the project, which is on none: pip takes an installed project by
    its name. A checkout that is only on the path has none, so its folder is given."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import, with all of email

    try:
        distribution(PROJECT)
    except PackageNotFoundError:
        if (IMPORTED_FROM / "pyproject.toml").is_file():
            return f"pip install '{IMPORTED_FROM}[{extra}]'"
    return f"pip install '{PROJECT}[{extra}]'"


def has_pyspark() -> bool:
    """Whether PySpark is installed, by the package or by a platform."""
    return find_spec("pyspark") is not None


def require_pyspark(*_: object, **__: object) -> None:
    """Raises KgroupsError, whatever the arguments are, if PySpark is not installed, by the package or by a platform, if
    it is of another release, or if pandas is missing."""
    try:
        from pyspark.version import __version__
    except ImportError as error:
        raise KgroupsError(
            f"this needs Spark, and PySpark is not installed: {how_to_install('local')}, or run "
            "jobs/nightly_audit.py by spark-submit"
        ) from error
    require_spark(__version__)
    if find_spec("pandas") is None:
        raise KgroupsError(f"PySpark needs pandas, which is not installed: {how_to_install('cluster')}")


def require_spark(version: str) -> None:
    """Raises KgroupsError for another release of Spark: Delta's jars are those of one release."""
    if not version.startswith(f"{SPARK}."):
        raise KgroupsError(
            f"this is Spark {version}, and kgroups runs on Spark {SPARK} alone: use a platform or an image that "
            f"has it, or {how_to_install('local')} in an environment without another Spark"
        )


# Environment variables by which a user configures Spark, perhaps with a catalog.
SET_UP_BY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "SPARK_REMOTE")


def may_have_catalog() -> bool:
    """Whether the session may have a catalog other than an empty one that ends with the session."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None or any(name in os.environ for name in SET_UP_BY)


# Findings and the summary must not end an audit, which has committed all before: a defect costs only the finding or
# the line, and a note names it.


Result = TypeVar("Result")

# Exceptions that an attempt survives. Tests make it empty, so that a defect fails them.
SURVIVED: tuple[type[Exception], ...] = (Exception,)


def attempt(what: str, make: Callable[[], Result]) -> tuple[Result | None, str | None]:
    """The result of `make`, and None; or None, and a note that `what` failed, with the reason if storage or a machine
    did (KgroupsError, OSError); else the exception's place without its text, which may hold names from the log."""
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


# A failure of storage, Delta or a task as one line for people, without the stacks of three languages.


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
    """The same for a whole command and failures of its machine or cluster: a killed JVM or worker, a full disk. A
    task's KgroupsError is shown unchanged; a bug of ours in a task keeps its stack."""
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


# py4j's errors if the connection broke while it waited for an answer, or looked up a class that Spark always has; else
# it raises Py4JNetworkError. If Java answers that it has no such method, the error has other words, or a trace.
NO_ANSWER = re.compile(r"An error occurred while calling \S+|\S*Spark\S+ does not exist in the JVM")
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
    """The message of a KgroupsError in Spark's `text` about a failed task; None: it was another error."""
    raised = re.findall(r"^(kgroups_spark(?:\.\w+)*)\.(\w+): (.+)$", text, re.MULTILINE)
    if not raised:
        return None
    module, name, message = raised[-1]
    kind = getattr(import_module(module), name, None)
    return str(message) if isinstance(kind, type) and issubclass(kind, KgroupsError) else None
