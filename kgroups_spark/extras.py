"""How the package's extras are installed, for messages that miss a package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PROJECT = "kgroups-spark"


def how_to_install(extra: str) -> str:
    """The command for a shell: the project is on no index.

    pip takes the installed project by its name, whether it came from a wheel or a checkout, and asks an index for what
    the extra adds. A checkout that is only on the path has no name there: it is given by its folder.
    """
    try:
        distribution(PROJECT)
    except PackageNotFoundError:
        checkout = Path(__file__).parents[1]
        if (checkout / "pyproject.toml").is_file():
            return f"pip install '{checkout}[{extra}]'"
    return f"pip install '{PROJECT}[{extra}]'"
