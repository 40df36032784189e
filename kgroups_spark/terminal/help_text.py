"""Help in the width of the screen. Prose is filled; an example's comment is below it if there is no room for both."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Callable, Iterator

EXAMPLES = "examples:"  # the heading of lines that can be pasted into a shell
_GAP = re.compile(r" {2,}")  # between an example and its comment
_COMMAND_PART = re.compile(r"""(?:--\S+ (?=[^-]))?(?:"[^"]*"|'[^']*'|[^\s"'])+""")  # a word, an option with its value
_POINT = re.compile(r"\d\. ")  # of a list


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Descriptions and epilogs are written in lines of 120 columns, which stay unchanged if they fit.

    Otherwise lines that begin at the margin are prose, up to the next blank or indented line. An indented line is an
    example, or a point of a list, together with the lines that are indented further. An example in several lines
    remains a command of a shell: each line but the last ends with a backslash, and none breaks inside quotes.
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if all(len(line) <= width for line in text.splitlines()):
            return super()._fill_text(text, width, indent)
        heading, lines = "", []
        for item in _items(text):
            heading = heading if item[0].startswith(" ") else item[0]
            lines += _filled(item, width, _command if heading == EXAMPLES else _wrapped)
        return "\n".join(indent + line for line in lines)

    def _split_lines(self, text: str, width: int) -> list[str]:
        """The lines of an option's help. argparse's own method would break `share-state` at its hyphen."""
        return _wrapped(" ".join(text.split()), width, 0, 0)


def _items(text: str) -> Iterator[list[str]]:
    """Groups of lines that belong together."""
    item: list[str] = []
    for line in text.splitlines():
        if item and not _continues(item, line):
            yield item
            item = []
        item.append(line)
    yield item


def _continues(item: list[str], line: str) -> bool:
    first, indented = _indent(item[0]), _indent(line)
    if not line.strip() or not item[0].strip() or item[0].endswith(":"):
        return False
    return indented > first if first else not indented


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _filled(item: list[str], width: int, example_lines: Callable[[str, int, int, int], list[str]]) -> list[str]:
    indent = _indent(item[0])
    if not indent:
        return _wrapped(" ".join(item), width, 0, 0) or [""]
    if all(len(line) <= width for line in item):
        return item
    example, *rest = (part for line in item for part in _GAP.split(line.strip()))
    if _POINT.match(example):
        return _wrapped(" ".join([example, *rest]), width, indent, indent + 3)
    return [
        *example_lines(example, width, indent, indent + 4),
        *_wrapped(" ".join(rest), width, indent + 4, indent + 4),
    ]


def _command(text: str, width: int, first: int, others: int) -> list[str]:
    start, *parts = _COMMAND_PART.findall(text)
    lines = [" " * first + start]
    for number, part in enumerate(parts, 1):
        room = width if number == len(parts) else width - len(" \\")
        if len(lines[-1]) + 1 + len(part) <= room:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(" " * others + part)
    return lines


def _wrapped(text: str, width: int, first: int, others: int) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=" " * first,
        subsequent_indent=" " * others,
        break_long_words=False,
        break_on_hyphens=False,
    )
