"""`kgroups` as a process: replaces closed streams and handles Ctrl-C before the slow import of the commands."""

from __future__ import annotations

import ctypes
import gc
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType

from kgroups_spark.spark.interruption import how_it_ended, interruptible


class _NoPandas:
    """Finds no module, and for pandas nobody else may."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def entry_point() -> None:
    """The console script."""
    open_closed_streams()
    use_utf_8()
    with interruptible():
        try:
            with importing():
                from kgroups_spark.cli import main as cli
        except KeyboardInterrupt:
            said, code = how_it_ended()
            sys.stderr.write(f"kgroups: {said}\n")
            os._exit(code)
        cli.entry_point()


@contextmanager
def importing() -> Iterator[None]:
    """The first imports of a process that is ours alone, for three quarters of their CPU."""
    # NumPy's library for linear algebra, which nothing here uses, would start a thread a core when it is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # As tasks have it (sources/files.py): what two pools hold is not shared.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Arrow's threads read files: in arenas of their own they would keep 25 MB, also in each process that is forked.
    with suppress(AttributeError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(-8, 1)  # mallopt(3): M_ARENA_MAX
    # Modules stay: looking for garbage among them, now and later, would cost a tenth of the imports.
    gc.disable()
    leave_pandas_out()
    yield
    gc.freeze()
    gc.enable()


def leave_pandas_out() -> None:
    """Has pyarrow look for pandas now, and not find it. With its first array it would load pandas, to recognise arrays
    of pandas, of which we have none: a third of the CPU of a command. Code that asks for pandas still loads it."""
    import pyarrow as pa

    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(_NoPandas)


def open_closed_streams() -> None:
    """Opens the null device for each of stdin, stdout and stderr that the caller closed (`>&-`), which are None in
    Python. The next file would get the stream's number otherwise, and lines that a library writes to stderr."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115


def use_utf_8() -> None:
    """Files and pipes have UTF-8 in every locale, as JSON must have and --output has. A terminal has its own encoding:
    characters that it lacks are spelled out."""
    if isinstance(sys.stdin, io.TextIOWrapper) and not sys.stdin.isatty():
        sys.stdin.reconfigure(encoding="utf-8")
    if isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="backslashreplace")
        else:
            sys.stdout.reconfigure(encoding="utf-8")
