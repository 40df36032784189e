"""audit the shipped segments into ./lake and say what to look at

Audits segments that come with the package into a lake, and says what happened in them and which command shows it:
three weeks of a small shop, with 48 groups in __consumer_offsets, their transactions in __transaction_state, and the
deliveries of a share group in __share_group_state. A second run reads nothing new and says the same.

examples:
  kgroups demo                        into ./lake
  kgroups demo --lake /tmp/lake"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from kgroups_spark.cli import audit
from kgroups_spark.cli.form import LAKE, WRITER, lake_location
from kgroups_spark.cli.open_lake import require_free, require_lake_path
from kgroups_spark.cli.output import say, show, terminal_width, wrapped
from kgroups_spark.errors import has_pyspark
from kgroups_spark.package_data import on_disk
from kgroups_spark.spark.java import NoJava, require_java
from kgroups_spark.words import shell_word

SEGMENTS = on_disk("demo/segments")
DEFAULT_LAKE = "./lake"
# In the shipped segments: their contents, what happened, and the command that shows it.
CONTENTS = "A small shop: 35 groups, 186 committed offsets, 2026-10-26 06:35 to 2026-11-16 06:41 UTC"
_STORY = """\
In a night invoice-export was set back, and sent 12,192 invoices twice
  history --group invoice-export --event offset_rewound
A rebalance is stuck: two new members of returns-sync wait for one that does not release its partitions
  describe --group returns-sync --state
Poison messages: packing-tasks, a share group, gave up 5 records of shipments
  dead-letters
A transaction of payments-ledger hangs for three days, and its offsets with it
  pending --hanging
Lost records: offsets of carrier-feedback expired while it was stopped. It never reads 321,646 records
  history --group carrier-feedback --topic shipments
Two pods fight over one static member, fraud-scoring-1
  findings --all-audits --finding contested_static_member
The tasks of a Streams application, order-totals, and who has them
  describe --group order-totals --members
6 groups lose their offsets within a week, 2 of them at the next check
  expiring --within 7d
All that is odd, why it matters, what to do
  findings
All of it with plots, to open in a browser
  report --output report.html"""
STORY = re.findall(r"(.+)\n  (.+)", _STORY)

OPTIONS = (
    LAKE._replace(help=LAKE.help.replace(")", f", else {DEFAULT_LAKE})")),
    WRITER._replace(help=WRITER.help.replace("(default)", "(default where it can start)"), default=None),
)


def run(arguments: argparse.Namespace) -> int:
    """Audits the shipped segments and prints the screen."""
    arguments.lake = lake_location(arguments, DEFAULT_LAKE)
    require_lake_path(arguments.lake)
    require_free(arguments.lake)
    options = audit.default_options()
    options.engine = arguments.engine or ("spark" if _spark_can_start() else "local")
    say(f"reading the shipped segments into {arguments.lake} (--engine {options.engine})")
    audit.audit(options, arguments.lake, [str(SEGMENTS)])
    width, program = terminal_width(sys.stdout), program_name(sys.argv[0])
    for line in wrapped(CONTENTS, width):
        show(line)
    for what, command in STORY:
        for line in ["", *wrapped(what, width)]:
            show(line)
        name, _, rest = command.partition(" ")
        show(f"  {program} {name} --lake {shell_word(arguments.lake)} {rest}".rstrip())
    return 0


def _spark_can_start() -> bool:
    try:
        require_java()
    except NoJava:
        return False
    return has_pyspark()


def program_name(called_as: str) -> str:
    """The command that starts kgroups here: its name if it is on the PATH, else the path with which it was started."""
    path = Path(called_as)
    if path.name != "kgroups" or shutil.which("kgroups") is not None:
        return "kgroups"
    return shlex.quote(os.path.relpath(path) if path.is_relative_to(Path.cwd()) else called_as)
