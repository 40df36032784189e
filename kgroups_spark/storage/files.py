"""Files and folders, local or on any file system that pyarrow.fs opens, by a path or URI that works in every
process."""

from __future__ import annotations

import errno
import io
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Protocol, Self

from pyarrow import fs

from kgroups_spark.errors import NotReadable, UsageError
from kgroups_spark.storage.carried import stand_in_path
from kgroups_spark.storage.s3 import is_s3, s3_file_system


class FolderNotFound(UsageError, NotReadable):
    """A folder that does not exist, or is none."""


class UnreadableFolder(NotReadable):
    """A folder that the file system does not let us list, or that no file system can open."""


@dataclass(frozen=True)
class FileVersion:
    """The identity of the file that a path names at a moment, by its file system. None: unknown."""

    size: int  # bytes
    modified_ns: int | None
    inode: tuple[int, int] | None = None  # device and inode of a local file
    etag: str | None = None  # of an object; listings do not have it

    def is_still(self, now: FileVersion, *, may_grow: bool = False) -> bool:
        """Whether `now` is the same file with the same content. `may_grow`: a local file may have been appended to."""
        if _differ(self.inode, now.inode) or _differ(self.etag, now.etag):
            return False
        if may_grow and self.inode is not None:
            return now.size >= self.size
        return now.size == self.size and not _differ(self.modified_ns, now.modified_ns)


def _differ(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other


@dataclass(frozen=True)
class Entry:
    """An entry of a folder: a file, or not (a folder, a link whose target is gone, a pipe)."""

    name: str
    path: str  # an absolute path, or a URI like its folder's
    is_file: bool
    version: FileVersion | None = None  # of a file

    @property
    def size(self) -> int:
        """Bytes; 0 of a folder."""
        return 0 if self.version is None else self.version.size


class OpenFile(Protocol):
    """A file that is open for random access, with its identity."""

    def seek(self, position: int, /) -> object: ...

    def readinto(self, buffer: memoryview, /) -> int | None: ...

    def read(self, size: int = -1, /) -> bytes: ...

    def close(self) -> None: ...

    def version(self) -> FileVersion | None:
        """The file's present identity; None: unknown. For a local file it is the descriptor's, even if its path now
        names another file. Raises FileNotFoundError for an object that is gone."""


class LocalFile(io.FileIO):
    """A local file. It stays readable if its path is deleted or names another file. Raises OSError also for anything
    but a regular file: opening a pipe would wait for its other end, and a device may have no end."""

    def __init__(self, path: str) -> None:
        super().__init__(path, opener=_open_regular)

    def version(self) -> FileVersion:
        """The version of the open descriptor's file."""
        return _local_version(os.fstat(self.fileno()))


class StoredFile:
    """An object of a store, or a file of a file system that is not local. Each read returns the content at that
    time."""

    def __init__(self, system: fs.FileSystem, inside: str) -> None:
        self._system, self._inside = system, inside
        self._file = system.open_input_file(inside)
        self._etag = _etag(self._file)
        self._was_asked = False
        self.seek, self.read, self.close = self._file.seek, self._file.read, self._file.close

    def readinto(self, buffer: memoryview) -> int | None:
        """As in Python's files."""
        got: int | None = self._file.readinto(buffer)
        return got

    def version(self) -> FileVersion:
        """The object's identity, by one request: at first with the facts of a listing, later only size and ETag, if it
        has one."""
        if self._was_asked and self._etag is not None:
            with self._system.open_input_file(self._inside) as now:
                return FileVersion(now.size(), None, None, _etag(now))
        self._was_asked = True
        info = self._system.get_file_info(self._inside)
        if info.type != fs.FileType.File:
            raise FileNotFoundError(f"{self._inside} is gone")
        return FileVersion(info.size or 0, info.mtime_ns, None, self._etag)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    kind = os.fstat(descriptor).st_mode
    if S_ISREG(kind) or S_ISDIR(kind):  # Python itself refuses a folder
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", path)


def _etag(file: fs.NativeFile) -> str | None:
    found: bytes | None = {key.lower(): value for key, value in file.metadata().items()}.get("etag")
    return None if found is None else found.decode(errors="replace")


def _local_version(found: os.stat_result) -> FileVersion:
    return FileVersion(found.st_size, found.st_mtime_ns, (found.st_dev, found.st_ino))


def is_local(location: str) -> bool:
    """Whether a path or URI names a local file or folder. Raises the errors of file_system."""
    return isinstance(file_system(location)[0], fs.LocalFileSystem)


_NO_FOLDER = {
    fs.FileType.File: "is a file, not a folder",
    fs.FileType.NotFound: "does not exist",
    fs.FileType.Unknown: "is a pipe or a device, not a folder",
}


def list_folder(folder: str) -> list[Entry]:
    """The entries of a folder, by name. Raises FolderNotFound, UnreadableFolder."""
    if not folder:
        raise FolderNotFound("an empty name is no folder; the current one is .")
    try:
        system, inside = file_system(folder)
        kind = system.get_file_info(inside).type
        if kind == fs.FileType.Directory:
            if isinstance(system, fs.LocalFileSystem):
                entries = _local_entries(folder, inside)
            else:
                entries = [_entry(folder, info) for info in system.get_file_info(fs.FileSelector(inside))]
    except (OSError, ValueError, NotImplementedError) as err:
        raise UnreadableFolder(f"{folder} cannot be listed: {err}") from err
    if kind != fs.FileType.Directory:
        raise FolderNotFound(f"{folder} {_NO_FOLDER[kind]}")
    return sorted(entries, key=lambda entry: entry.name)


def _local_entries(folder: str, inside: str) -> list[Entry]:
    """The entries of a local folder. pyarrow's listing has no inodes, and leaves out links with a missing target, which
    may be a part of a log."""
    found = []
    with os.scandir(inside) as entries:
        for entry in entries:
            path = path_in(folder, entry.name)
            try:
                about = entry.stat()
            except FileNotFoundError:
                if entry.is_symlink():
                    found.append(Entry(entry.name, path, False))
                continue  # removed since the listing
            is_file = S_ISREG(about.st_mode)
            version = _local_version(about) if is_file else None
            found.append(Entry(entry.name, path, is_file, version))
    return found


def _entry(folder: str, info: fs.FileInfo) -> Entry:
    is_file = info.type == fs.FileType.File
    version = FileVersion(info.size or 0, info.mtime_ns) if is_file else None
    return Entry(info.base_name, path_in(folder, info.base_name), is_file, version)


def open_file(path: str) -> LocalFile | StoredFile:
    """A file for random access, to be closed by the caller. Raises OSError."""
    system, inside = file_system(path)
    return LocalFile(inside) if isinstance(system, fs.LocalFileSystem) else StoredFile(system, inside)


def create_local(path: str, text: str) -> bool:
    """Creates a local file with this text, and its parent folders; False if the file exists. A reader sees the whole
    file or none. Raises OSError, also if the file system has no hard links."""
    file = Path(file_system(path)[1])
    file.parent.mkdir(parents=True, exist_ok=True)
    unnamed = file.with_name(f".{file.name}.{uuid.uuid4()}.tmp")
    try:
        unnamed.write_text(text, encoding="utf-8")
        os.link(unnamed, file)
    except FileExistsError:
        return False
    finally:
        unnamed.unlink(missing_ok=True)
    return True


# A broker's checkpoint file for a million partitions has about this size.
MOST_TEXT_BYTES = 64 << 20


def read_text(path: str) -> str:
    """The text of a small file. Raises UnreadableFolder if it cannot be read, or has more than MOST_TEXT_BYTES."""
    try:
        with open_file(path) as file:
            content: bytes = file.read(MOST_TEXT_BYTES + 1)
    except OSError as err:
        raise UnreadableFolder(f"{path} cannot be read: {err}") from err
    if len(content) > MOST_TEXT_BYTES:
        raise UnreadableFolder(f"{path} cannot be read: it has more than {MOST_TEXT_BYTES >> 20} MiB")
    return content.decode("utf-8", errors="replace")


def read_text_if_there(path: str) -> str | None:
    """The same; None if there is no such file."""
    try:
        return read_text(path)
    except UnreadableFolder as err:
        if isinstance(err.__cause__, FileNotFoundError):
            return None
        raise


def file_system(location: str) -> tuple[fs.FileSystem, str]:
    """pyarrow's file system for a path or URI, and the path in it. `~`, Hadoop's schemes and `file:/path` are
    understood. Raises OSError, ValueError or NotImplementedError if it cannot open the location, UsageError for
    credentials in a URI."""
    if (stand_in := stand_in_path(location)) is not None:
        return fs.LocalFileSystem(), stand_in
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


def path_in(folder: str, name: str) -> str:
    if "://" not in folder and not folder.startswith("file:/"):
        return str(Path(folder).expanduser().absolute() / name)
    place, options = _place_and_options(folder)
    return f"{place}/{name}{options}"


def folder_of(path: str) -> str:
    """The folder of a file or folder, by its path or URI."""
    place, options = _place_and_options(path)
    return f"{place.rpartition('/')[0]}{options}"


def name_of(path: str) -> str:
    """The name of a file or folder, by its path or URI."""
    return _place_and_options(path)[0].rpartition("/")[2]


def _place_and_options(path: str) -> tuple[str, str]:
    """A URI may end with options of its file system: s3://bucket/logs?region=eu-west-1. A path may have a `?`, too."""
    place, question_mark, options = path.partition("?") if "://" in path else (path, "", "")
    return place.rstrip("/"), question_mark + options
