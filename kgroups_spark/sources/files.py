"""Files and folders, local or on any file system that pyarrow.fs opens, by one text that opens in every process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.sources.s3 import is_s3, s3_file_system


class FolderNotFound(UsageError):
    """A folder that is not there, or is a file."""


class UnreadableFolder(KgroupsError):
    """A folder that the file system does not let us list, or that no file system knows how to open."""


@dataclass(frozen=True)
class Entry:
    """What is inside a folder: a file, a folder, or neither (a link whose target is gone, a pipe)."""

    name: str
    path: str  # an absolute path, or a URI like its folder's
    is_file: bool
    is_folder: bool
    size: int  # bytes; 0 of a folder


def list_folder(folder: str) -> list[Entry]:
    """What is in a folder, by name. Raises FolderNotFound, UnreadableFolder."""
    if not folder:
        raise FolderNotFound("an empty name is no folder; the current one is .")
    try:
        system, inside = file_system(folder)
        kind = system.get_file_info(inside).type
        if kind == fs.FileType.Directory:
            infos = [*system.get_file_info(fs.FileSelector(inside)), *_broken_links(system, inside)]
    except (OSError, ValueError, NotImplementedError) as err:
        raise UnreadableFolder(f"{folder} cannot be listed: {err}") from err
    if kind != fs.FileType.Directory:
        found = "is a file, not a folder" if kind == fs.FileType.File else "does not exist"
        raise FolderNotFound(f"{folder} {found}")
    return sorted((_entry(folder, info) for info in infos), key=lambda entry: entry.name)


def _broken_links(system: fs.FileSystem, inside: str) -> list[fs.FileInfo]:
    """pyarrow's listing leaves out links whose target is gone, and with them a part of a log."""
    if not isinstance(system, fs.LocalFileSystem):
        return []
    with os.scandir(inside) as entries:
        links = [entry.path for entry in entries if entry.is_symlink()]
    return [info for info in system.get_file_info(links) if info.type == fs.FileType.NotFound]


def _entry(folder: str, info: fs.FileInfo) -> Entry:
    return Entry(
        info.base_name,
        _join(folder, info.base_name),
        info.type == fs.FileType.File,
        info.type == fs.FileType.Directory,
        info.size or 0,
    )


def open_file(path: str) -> fs.NativeFile:
    """A file for random access, to be closed by the caller. Raises OSError."""
    system, inside = file_system(path)
    return system.open_input_file(inside)


def read_text(path: str) -> str:
    """A small text file; raises UnreadableFolder if it cannot be read."""
    try:
        with open_file(path) as file:
            content: bytes = file.read()
    except OSError as err:
        raise UnreadableFolder(f"{path} cannot be read: {err}") from err
    return content.decode("utf-8", errors="replace")


def file_system(location: str) -> tuple[fs.FileSystem, str]:
    """pyarrow's file system for a path or URI, and the place in it. `~`, Hadoop's schemes and `file:/path` are
    understood. Raises OSError, ValueError or NotImplementedError for what it cannot open, UsageError for credentials
    in a URI."""
    if is_s3(location):
        return s3_file_system(location)
    if location.startswith("file:/") and not location.startswith("file://"):
        location = location.removeprefix("file:")
    if "://" not in location:
        return fs.LocalFileSystem(), str(Path(location).expanduser().absolute())
    scheme, rest = location.split("://", 1)
    system, inside = fs.FileSystem.from_uri(f"{PYARROWS_SCHEME.get(scheme, scheme)}://{rest}")
    return system, inside


PYARROWS_SCHEME = {"wasbs": "abfss"}


def _join(folder: str, name: str) -> str:
    """The path of a name in a folder. A URI may end in options of its file system:
    s3://bucket/logs?region=eu-west-1."""
    if "://" not in folder:
        return str(Path(folder).expanduser().absolute() / name)
    place, question_mark, options = folder.partition("?")
    return f"{place.rstrip('/')}/{name}{question_mark}{options}"
