"""An output file, written completely or not at all, in a local folder or at a URI that pyarrow.fs opens."""

from __future__ import annotations

import errno
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from kgroups_spark.errors import KgroupsError, UsageError

_DEVICES = Path("/dev")
# The name of stdout as an output, as in Kafka's and most other tools; a file of that name is ./-
STDOUT = "-"


def require_place(output: str, example: str) -> None:
    """Raises UsageError, before any work, if no file can be written there; `example` is a file's name. A URI is checked
    only when it is written."""
    if _is_uri(output) or output == STDOUT:
        return
    path = Path(output)
    if path.is_dir():
        raise UsageError(f"--output {output} is a folder; name a file in it: {path / example}")
    if _is_no_plain_file(path):
        if not os.access(path, os.W_OK):
            raise UsageError(f"--output {output} cannot be written to")
        return
    folder = _followed(path).parent
    if not folder.is_dir():
        raise UsageError(f"--output {output}: no folder {folder}; create it first")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--output {output}: the folder {folder} cannot be written to")


def write_file(output: str, content: bytes) -> None:
    """Writes all of the content or, if that fails, none of it: an older file stays unchanged. Raises KgroupsError."""
    if output == STDOUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        if _is_uri(output):
            _write_by_pyarrow(output, content)
        else:
            _write_local(Path(output), content)
    except (OSError, ValueError, NotImplementedError) as error:
        said = (error.strerror if isinstance(error, OSError) else None) or error
        raise KgroupsError(f"{output} could not be written: {said}") from error


def _is_uri(output: str) -> bool:
    return "://" in output


def _write_by_pyarrow(output: str, content: bytes) -> None:
    """Writes directly, because an object store shows an object only once it is closed."""
    from kgroups_spark.storage.files import file_system

    system, place = file_system(output)
    with system.open_output_stream(place) as file:
        file.write(content)


def _is_no_plain_file(output: Path) -> bool:
    """Whether it is a pipe, a device or the like, which another file must not replace: root would delete /dev/null.
    /dev/stdout is a link, maybe to a plain file; files of /dev/shm are plain."""
    return output.exists() and (not output.is_file() or (output.is_symlink() and output.is_relative_to(_DEVICES)))


def _followed(output: Path) -> Path:
    """The file that is written: the target of a link, which stays."""
    return Path(os.path.realpath(output)) if output.is_symlink() else output


def _write_local(output: Path, content: bytes) -> None:
    if _is_no_plain_file(output):
        output.write_bytes(content)
        return
    output = _followed(output)
    part = _part_of(output)
    file = part.open("xb")
    with _removed_if_broken(part):
        with file:
            file.write(content)
        part.replace(output)


@contextmanager
def new_file(output: Path) -> Iterator[TextIO]:
    """A file of UTF-8 text, which gets its name at the end of the block: half of it, which a killed process leaves,
    would be taken for all of it. Raises FileExistsError if that name is taken by then, OSError."""
    part = _part_of(output)
    file = part.open("x", encoding="utf-8", newline="")
    with _removed_if_broken(part):
        with file:
            yield file
        _name_if_free(part, output)


def _name_if_free(part: Path, output: Path) -> None:
    """Names the file so, unless there is one of that name: a link is refused then, a renamed file would replace it."""
    try:
        os.link(part, output)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(output):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(output)) from None
        part.rename(output)
    else:
        part.unlink()


def _part_of(output: Path) -> Path:
    """A file beside the output. The name cannot be guessed, and an existing file or link of that name is refused."""
    return output.with_name(f".{output.name}.{secrets.token_hex(8)}")


@contextmanager
def _removed_if_broken(file: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            file.unlink()
        raise
