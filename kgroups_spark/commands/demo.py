"""audit the shipped segments into ./lake and show what is in it

Audits segments that come with the package into a lake and shows what is in it: three weeks of a small shop's 48
consumer groups, written by Kafka 4.3.1's own coordinator. A second run reads nothing new and shows the same.

examples:
  kgroups demo                        into ./lake
  kgroups demo --lake /tmp/lake"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from kgroups_spark.commands import audit
from kgroups_spark.commands.form import LAKE, WIDE
from kgroups_spark.commands.overview import Overview, overview_lines
from kgroups_spark.commands.pending import PENDING, judged
from kgroups_spark.package_data import on_disk
from kgroups_spark.reading.open_lake import open_lake, require_free, require_lake_path
from kgroups_spark.reading.reader import LakeReader
from kgroups_spark.report.queries import query
from kgroups_spark.terminal.options import lake_location
from kgroups_spark.terminal.output import say, screen_width, show
from kgroups_spark.terminal.style import Style
from kgroups_spark.transaction_coordinator.rules import MAX_TRANSACTION_TIMEOUT_MS

SEGMENTS = on_disk("demo/segments")
DEFAULT_LAKE = "./lake"


OPTIONS = (LAKE._replace(help=LAKE.help.replace(")", f", else {DEFAULT_LAKE})")), WIDE)


def run(arguments: argparse.Namespace) -> int:
    """Audits the shipped segments and prints the screen."""
    arguments.lake = lake_location(arguments, DEFAULT_LAKE)
    require_lake_path(arguments.lake)
    require_free(arguments.lake)
    say(f"reading the shipped segments into {arguments.lake}")
    audit.audit(audit.default_options(), arguments.lake, [str(SEGMENTS)])
    overview = read_overview(open_lake(arguments))
    lines = overview_lines(
        overview,
        program=program_name(sys.argv[0]),
        lake=arguments.lake,
        width=screen_width(sys.stdout),
        style=Style.of(sys.stdout),
    )
    for line in lines:
        show(line)
    return 0


def program_name(called_as: str) -> str:
    """The command that starts kgroups here: its name if it is on the PATH, else the path with which it was started."""
    path = Path(called_as)
    if path.name != "kgroups" or shutil.which("kgroups") is not None:
        return "kgroups"
    return shlex.quote(os.path.relpath(path) if path.is_relative_to(Path.cwd()) else called_as)


OFFSETS = """
SELECT
  count(*) AS offset_count,
  count(CASE WHEN expires_at IS NULL THEN expires_at_if_empty END) AS more_if_empty,
  max(CASE WHEN expires_at IS NULL THEN expires_at_if_empty END) AS last_if_empty
FROM offset_expiry"""


def read_overview(reader: LakeReader) -> Overview:
    """The contents of the screen, read from the lake."""
    last = reader.last_audit["audit_id"]
    return Overview(
        audit=reader.last_audit,
        groups=reader.rows("groups"),
        expiring=reader.sql(query("expiring_groups")),
        **reader.sql(OFFSETS)[0],
        pending=_pending(reader),
        moves=reader.sql(query("offset_moves")),
        findings=reader.sql("SELECT * FROM findings WHERE audit_id = :last", last=last),
        oldest_log_timestamp=reader.sql("SELECT begins FROM known_history")[0]["begins"],
    )


def _pending(reader: LakeReader) -> list[dict[str, Any]]:
    return [judged(row, None, reader.as_of_ms, MAX_TRANSACTION_TIMEOUT_MS) for row in reader.sql(PENDING)]
