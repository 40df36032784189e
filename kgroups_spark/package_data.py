"""The package's version, and files that come with it. It may be a zip (`spark-submit --py-files kgroups_spark.zip`)."""

from __future__ import annotations

import tempfile
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

# pyproject.toml reads it here, and each audit writes it into its row of the ledger.
__version__ = "0.1.0"

_PACKAGE = files("kgroups_spark")
IMPORTED_FROM = Path(str(_PACKAGE)).parent  # as in sys.path: a folder or a zip


def package_file(path: str) -> Traversable:
    """The file or folder of that path in the package: to be read, not opened by its name."""
    return _PACKAGE.joinpath(*path.split("/"))


def package_text(path: str) -> str:
    """The text of a file of the package. Raises FileNotFoundError if there is none."""
    return package_file(path).read_text("utf-8")


def names_in_package(folder: str, suffix: str) -> list[str]:
    """The names of the files there that end with `suffix`, in order, without it."""
    names = sorted(entry.name for entry in package_file(folder).iterdir())
    return [name.removesuffix(suffix) for name in names if name.endswith(suffix)]


@cache
def on_disk(path: str) -> Path:
    """The path of a file or folder for another program; a zip's is a temporary copy until this process ends."""
    found = package_file(path)
    return found if isinstance(found, Path) else _copied(found, Path(_unpacked().name))


@cache
def _unpacked() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="kgroups-")


def _copied(found: Traversable, folder: Path) -> Path:
    copy = folder / found.name
    if found.is_dir():
        copy.mkdir()
        for entry in found.iterdir():
            _copied(entry, copy)
    else:
        copy.write_bytes(found.read_bytes())
    return copy
