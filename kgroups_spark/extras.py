"""The package's extras: how to install them, and whether the Spark that one brings is there."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from kgroups_spark.errors import KgroupsError

PROJECT = "kgroups-spark"
IMPORTED_FROM = Path(str(files("kgroups_spark"))).parent
SPARK = "4.2"  # the release that Delta's jars, which we call, are made for


def how_to_install(extra: str) -> str:
    """The command for a shell. It needs no index for the project, because the project is on none.

    pip takes the installed project by its name, whether it came from a wheel or a checkout, and asks an index only for
    the packages of the extra. A checkout that is only on the path has no name in pip, so its folder is given.
    """
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
