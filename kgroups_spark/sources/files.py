"""Files and folders, local or on any file system that pyarrow.fs opens, by one text that opens in every process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from kgroups_spark.errors import KgroupsError, UsageError


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
        system, inside = _resolve(folder)
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
    system, inside = _resolve(path)
    return system.open_input_file(inside)


def read_text(path: str) -> str:
    """A small text file; raises UnreadableFolder if it cannot be read."""
    try:
        with open_file(path) as file:
            content: bytes = file.read()
    except OSError as err:
        raise UnreadableFolder(f"{path} cannot be read: {err}") from err
    return content.decode("utf-8", errors="replace")


def _resolve(path: str) -> tuple[fs.FileSystem, str]:
    if "://" in path:
        system, inside = fs.FileSystem.from_uri(path)
        return system, inside
    return fs.LocalFileSystem(), str(Path(path).expanduser().absolute())


def _join(folder: str, name: str) -> str:
    """The path of a name in a folder. A URI may end in options of its file system:
    s3://bucket/logs?region=eu-west-1."""
    if "://" not in folder:
        return str(Path(folder).expanduser().absolute() / name)
    place, question_mark, options = folder.partition("?")
    return f"{place.rstrip('/')}/{name}{question_mark}{options}"
