"""How to install the package's extras, for messages about a missing package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

from kgroups_spark.package_data import IMPORTED_FROM

PROJECT = "kgroups-spark"


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
