"""A lake in a folder of this machine: its files by Python. Without Spark, its tasks run in processes."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgroups_spark.errors import UsageError
from kgroups_spark.lake.store import Store
from kgroups_spark.sources.files import create_local
from kgroups_spark.spark.tasks import Processes, Runner
from kgroups_spark.tables.schemas import is_path


@dataclass(frozen=True)
class Local:
    """The engine without Spark, in the place of a session."""

    store: LocalStore = field(default_factory=lambda: LocalStore())
    runner: Runner = field(default_factory=Processes)


class LocalStore(Store):
    """Folders of this machine."""

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
        with suppress(FileNotFoundError):
            return [each.name for each in _local(folder).iterdir()]
        return []

    def files_in(self, folder: str) -> dict[str, tuple[int, int]]:
        stats = {entry.name: entry.stat() for entry in os.scandir(_local(folder)) if entry.is_file()}
        return {name: (each.st_size, each.st_mtime_ns // 1_000_000) for name, each in stats.items()}

    def fetch(self, uri: str, path: str) -> None:
        shutil.copyfile(_local(uri), path)

    def put(self, path: str, uri: str) -> None:
        shutil.copyfile(path, _local(uri))

    def size_of(self, file: str) -> int | None:
        place = _local(file)
        return place.stat().st_size if place.is_file() else None

    def listed(self, log: str) -> Mapping[str, Any]:
        return dict.fromkeys(self.names_in(log))

    def identity(self, file: str, listed: Mapping[str, Any]) -> tuple[int, int, int, int]:
        found = _local(file).stat()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    @staticmethod
    def read(file: str) -> bytes:
        return _local(file).read_bytes()

    def create(self, file: str, text: str) -> bool:
        return create_local(file, text)

    def replace(self, file: str, content: bytes) -> None:
        new = _local(file).with_name(f".{uuid.uuid4()}.tmp")
        new.write_bytes(content)
        new.replace(_local(file))


def require_local(location: str) -> None:
    """Raises UsageError for the location of a lake that is no folder of this machine."""
    if not is_path(location) or ("://" in location and not location.startswith("file:")):
        raise UsageError(
            f"--engine local writes to a folder of this machine, and {location} is in "
            f"{'a store' if is_path(location) else 'a catalog'}, which Spark reaches: leave --engine out"
        )


def _local(uri: str) -> Path:
    return Path(uri.removeprefix("file:"))
