"""`make kafka-watch`: what a Kafka release writes or takes as a default that this project does not know.

The message files and ConfigDefs of the release come from Maven. Exit code 0: no difference, 1: differences, 2: the
release could not be read.
"""

from __future__ import annotations

import argparse
import sys
import textwrap

from kgroups_spark.coordinator.releases import NEWEST as NEWEST_CLAIMED
from kgroups_spark.messages.schema import all_definitions
from tests.kafka_watch.differences import Difference, definition_differences
from tests.kafka_watch.release_jars import NEWEST, published_definitions, release_jars
from tests.kafka_watch.settings import expected_settings, published_settings, setting_differences

WIDTH = 80


def main(arguments: list[str] | None = None) -> int:
    """The exit code."""
    options = _parser().parse_args(arguments)
    try:
        release = release_jars(options.release)
        definitions = published_definitions(release)
        settings = published_settings(release)
    except RuntimeError as error:
        sys.stderr.write(f"kafka-watch: Kafka {options.release} cannot be read from Maven: {_cause(error)}\n")
        return 2
    differences = definition_differences(definitions, all_definitions())
    differences += setting_differences(settings, expected_settings())
    sys.stdout.write("\n".join([*report(release.version, differences), ""]))
    return 1 if differences else 0


def report(version: str, differences: list[Difference]) -> list[str]:
    """Lines of at most 80 columns; a name that is longer stays whole."""
    lines = [f"Kafka {version} beside what kgroups-spark knows (up to Kafka {NEWEST_CLAIMED})", ""]
    for subject in dict.fromkeys(each.subject for each in differences):
        texts = [each.text for each in differences if each.subject == subject]
        lines += [subject, *(line for text in texts for line in _indented(text)), ""]
    number = len(differences)
    return [*lines, f"{number} difference{'' if number == 1 else 's'}" if number else "no difference"]


def _cause(error: RuntimeError) -> str:
    """The lines of Ivy's long message that name a module it did not find; if there are none, the whole message."""
    lines = str(error).splitlines()
    return "; ".join(line.strip(" \t:") for line in lines if line.endswith(": not found")) or str(error)


def _indented(text: str) -> list[str]:
    indent = "  "
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent * 2, break_long_words=False, break_on_hyphens=False
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make kafka-watch",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=WIDTH),
        description="Compares a Kafka release with what kgroups-spark knows: record types,\n"
        "versions, fields, tags and defaults of the three logs, and the defaults of the\n"
        "coordinators' settings. The jars (15 MB) come from Maven once.",
        epilog='With make: KAFKA_WATCH_ARGS="--release 4.4.0". Exit code 0: no difference, 1:\n'
        "differences, 2: the release could not be read.",
    )
    parser.add_argument(
        "--release", default=NEWEST, metavar="VERSION", help="as on Maven, such as 4.4.0 (default: the newest there)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
