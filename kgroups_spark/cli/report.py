"""write one HTML page with plots and tables

Writes one HTML file that needs no network. It shows what expires when, the effect of another retention, offsets lost as
soon as a group empties, open transactions, rewound offsets, removals and their causes, findings, groups over time,
rebalances, the migration to KIP-848, rate and bloat of __consumer_offsets, quarantine, coverage, and each group with
its offsets and events. Tables can be searched and sorted; each figure has its SQL. Overwrites an existing file.

examples:
  kgroups report --lake ./lake                             into ./report.html
  kgroups report --lake ./lake --output /srv/www/kafka.html --title "orders, Frankfurt"
  kgroups report --lake s3://bucket/kgroups --output s3://bucket/kafka.html"""

from __future__ import annotations

import argparse
import importlib.util

from kgroups_spark.cli.form import ENGINE, LAKE, Option
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import STDOUT, Progress, require_place, say, write_file
from kgroups_spark.errors import KgroupsError, how_to_install
from kgroups_spark.words import sized

DEFAULT_OUTPUT = "report.html"
NEEDED = ("jinja2", "vl_convert")


OPTIONS = (
    LAKE,
    Option(
        "--output FILE",
        f"the HTML file, a URI of one, or - for stdout (default: {DEFAULT_OUTPUT})",
        default=DEFAULT_OUTPUT,
    ),
    Option("--title TEXT", "the page's title, as your cluster's name (default: its id, else the lake)"),
    ENGINE,
)


def run(arguments: argparse.Namespace) -> int:
    output: str = arguments.output
    require_place(output, DEFAULT_OUTPUT)
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        need = f"the report needs {', '.join(missing)}, which this Python lacks"
        raise KgroupsError(f"{need}: {how_to_install('report')}")
    reader = open_lake(arguments)
    reader.require_audit()
    from kgroups_spark.report.page import report_page

    progress = Progress()
    try:
        page = report_page(lambda query: [*reader.ask(query, {})], reader.location, progress, arguments.title).encode()
    finally:
        progress.done()
    write_file(output, page)
    say(f"{'stdout' if output == STDOUT else output}: {sized(len(page))} ({reader.known_as_of()})")
    return 0
