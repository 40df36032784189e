"""Files of Java's .properties syntax: settings of clients, and `meta.properties` of a log directory.

The rules are those of java.util.Properties.load (Java 17): a line that ends with an odd number of backslashes goes on
in the next one, whose leading blanks are dropped; a line that starts with # or ! is a comment; a key ends at the first
unescaped `=`, `:` or blank. Files are ISO-8859-1, other characters are written \\uXXXX. If a name is given twice, the
last value counts. Kafka 4.3: org.apache.kafka.common.utils.Utils.loadProps.

A test compares with Java's answers. The package javaproperties 0.8.2 is not equal: it takes a comment after a lone
backslash for a property, and its error does not name the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kgroups_spark.errors import UsageError

BLANKS = " \t\f"
# Java treats it as a separate, empty line.
LONE_BACKSLASH_AT_THE_END = re.compile(r"(?:^|[\r\n])[ \t\f]*\\[\r\n]?\Z")
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Names and values of a text in .properties syntax. Raises UsageError for a broken \\uXXXX."""
    properties = {}
    for number, line in _logical_lines(text):
        match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", line, re.DOTALL)
        assert match  # every part may be empty
        properties[_unescaped(match[1], number)] = _unescaped(match[2], number)
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined with their continuation lines, and the number of the first; without comments and blank lines."""
    logical = ""
    first = slashes = 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(BLANKS)
        if not logical:  # also after a line with nothing but its backslash, as in Java
            if not line or line[0] in "#!":
                continue
            first = number
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            logical += line[:-1]
            continue
        yield first, logical + line
        logical = ""
    if logical or (slashes % 2 and LONE_BACKSLASH_AT_THE_END.search(text)):
        yield first, logical


def _unescaped(text: str, line: int) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] == "u":
            raise UsageError(f"line {line} has a \\u without four hexadecimal digits")
        return ESCAPES.get(match[2], match[2])

    text = re.sub(r"\\(?:u([0-9A-Fa-f]{4})|(.)|$)", lambda m: one(m) if m[0] != "\\" else "", text, flags=re.DOTALL)
    # Java's characters are UTF-16: one beyond the basic plane is written as two escapes.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
