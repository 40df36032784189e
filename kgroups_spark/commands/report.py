"""`kgroups report`: a lake on one HTML page."""

from __future__ import annotations

import argparse
import importlib.util
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kgroups_spark.commands.options import add_engine_option, add_lake_option
from kgroups_spark.commands.output import say
from kgroups_spark.commands.progress import Progress
from kgroups_spark.commands.reading import open_lake
from kgroups_spark.counts import sized
from kgroups_spark.errors import KgroupsError, UsageError

NAME = "report"
SUMMARY = "what the lake says, on one HTML page"
DESCRIPTION = """\
Writes one HTML file that needs no network: what expires when and what another retention would do, what goes at once if
a group empties, open transactions, offsets that went back, removals and their causes, findings, groups over time, the
migration to KIP-848, rate and bloat of __consumer_offsets, quarantine, coverage. Tables can be searched and sorted;
under each figure stands the SQL that gave it. A file that is there is overwritten."""
EXAMPLES = """\
examples:
  kgroups report --lake ./lake                             into ./report.html
  kgroups report --lake ./lake --output /srv/www/kafka.html"""

DEFAULT_OUTPUT = "report.html"
_NEEDED = ("jinja2", "altair", "vl_convert")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `kgroups report`."""
    add_lake_option(parser)
    parser.add_argument(
        "--output", default=DEFAULT_OUTPUT, metavar="FILE", help=f"the HTML file (default: {DEFAULT_OUTPUT})"
    )
    add_engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the page."""
    output = Path(arguments.output)
    _require_place(output)
    _require_libraries()
    reader = open_lake(arguments)
    reader.require_audit()
    from kgroups_spark.report.page import report_page

    progress = Progress()
    try:
        page = report_page(reader.sql, reader.location, progress)
    finally:
        progress.done()
    _write(output, page.encode())
    say(f"{output}: {sized(output.stat().st_size)} ({reader.known_as_of()})")
    return 0


def _require_place(output: Path) -> None:
    """Raises UsageError before any work if no file can be written there."""
    if output.is_dir():
        raise UsageError(f"--output {output} is a folder; name a file in it: {output / DEFAULT_OUTPUT}")
    if not output.parent.is_dir():
        raise UsageError(f"--output {output}: there is no folder {output.parent}; make it first")
    if not os.access(output.parent, os.W_OK):
        raise UsageError(f"--output {output}: the folder {output.parent} cannot be written to")


def _require_libraries() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise KgroupsError(
            f"the report needs {', '.join(missing)}, which this Python lacks: pip install 'kgroups-spark[read]'"
        )


def _write(output: Path, page: bytes) -> None:
    """All of the page or, where that fails, none of it: an older one stays as it is. Raises KgroupsError."""
    # Nobody else knows this name beforehand, and whatever has it already, a link for instance, is refused.
    part = output.with_name(f".{output.name}.{secrets.token_hex(8)}")
    try:
        file = part.open("xb")
        with _removed_where_it_fails(part):
            with file:
                file.write(page)
            part.replace(output)
    except OSError as error:
        raise KgroupsError(f"the report could not be written to {output}: {error.strerror}") from error


@contextmanager
def _removed_where_it_fails(part: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
