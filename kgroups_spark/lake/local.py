"""A lake in a folder of this machine without Spark: the logs' files by Python, tasks in processes."""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from kgroups_spark.errors import UsageError
from kgroups_spark.lake.store import Store
from kgroups_spark.spark.tasks import Processes, Runner
from kgroups_spark.tables.schemas import is_path


@dataclass(frozen=True)
class Local:
    """The engine, in the place of a Spark session."""

    store: LocalStore = field(default_factory=lambda: LocalStore())
    runner: Runner = field(default_factory=Processes)


class LocalStore(Store):
    def qualified(self, location: str) -> str:
        require_local(location)
        return f"file:{_local(location).resolve()}"

    def delete(self, file_or_folder: str) -> None:
        place = _local(file_or_folder)
        if place.is_dir():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)

    def names_in(self, folder: str) -> list[str]:
        with suppress(FileNotFoundError, NotADirectoryError):
            return [each.name for each in os.scandir(_local(folder))]
        return []

    def files_in(self, folder: str) -> dict[str, tuple[int, int]]:
        stats = {entry.name: entry.stat() for entry in os.scandir(_local(folder)) if entry.is_file()}
        return {name: (each.st_size, each.st_mtime_ns // 1_000_000) for name, each in stats.items()}

    def fetch(self, uri: str, path: str) -> None:
        shutil.copyfile(_local(uri), path)

    def put(self, path: str, uri: str) -> None:
        shutil.copyfile(path, unnamed := _unnamed(uri))
        unnamed.replace(_local(uri))

    def size_of(self, uri: str) -> int:
        return _local(uri).stat().st_size

    def read_text(self, uri: str) -> str:
        return _local(uri).read_text(encoding="utf-8")

    def write_text(self, uri: str, text: str, *, overwrite: bool) -> bool:
        file, unnamed = _local(uri), _unnamed(uri)
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            unnamed.write_text(text, encoding="utf-8")
            if overwrite:
                unnamed.replace(file)
            else:
                os.link(unnamed, file)
        except FileExistsError:
            return False
        finally:
            unnamed.unlink(missing_ok=True)
        return True

    def log_names(self, log: str, version: int | None) -> list[str]:
        return self.names_in(log)

    def identity(self, uri: str) -> tuple[int, ...]:
        found = _local(uri).stat()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def require_local(location: str) -> None:
    """Raises UsageError for the location of a lake that is no folder of this machine."""
    if not is_path(location) or ("://" in location and not location.startswith("file:")):
        raise UsageError(
            f"--engine local writes to a folder of this machine, and {location} is in "
            f"{'a store' if is_path(location) else 'a catalog'}, which Spark reaches: leave --engine out"
        )


@lru_cache(maxsize=16384)  # logs are looked at many times
def _local(uri: str) -> Path:
    return Path(uri.removeprefix("file:"))


def _unnamed(uri: str) -> Path:
    """A file beside that one, which no reader takes for a part of a log."""
    file = _local(uri)
    return file.with_name(f".{file.name}.{uuid.uuid4()}.tmp")
