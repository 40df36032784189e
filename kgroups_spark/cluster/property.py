"""One property of a Kafka client: its errors, and its value as a number or a word."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

from kgroups_spark.errors import UsageError
from kgroups_spark.sources.files import parse_properties
from kgroups_spark.words import did_you_mean


class BadClientProperty(UsageError):
    """A property that is unknown, invalid, or cannot be used here. The message shows no secret."""


def shown(value: str) -> str:
    """The value as messages show it. Long and odd values are not shown: a broken line can contain the next one's
    secret."""
    if re.fullmatch(r"[\w.,:/\[\] -]{0,60}", value):
        return repr(value)
    return f"a value of {len(value)} characters that is not shown"


def whole_number(name: str, value: str, at_least: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", value) or int(value) < at_least:
        raise BadClientProperty(f"{name} must be a whole number, {at_least} or more, not {shown(value)}")
    return int(value)


def one_of(name: str, value: str, known: Iterable[str]) -> str:
    """The known word that `value` is. Raises BadClientProperty with the nearest ones."""
    words = list(known)
    if value not in words:
        nearest = did_you_mean(value, words)
        raise BadClientProperty(f"{name} must be one of {', '.join(words)}, not {shown(value)}{nearest}")
    return value


def listed(value: str) -> list[str]:
    """The items of a list as Kafka writes it: separated by commas, blanks around them dropped."""
    return [item.strip() for item in value.split(",") if item.strip()]


# Files with a client's properties, as Kafka's tools read them for --command-config (sources/files.py).


# Far larger than any file of settings, certificates or tokens; needed because /dev/zero never ends.
MOST_BYTES = 16 << 20


def read_properties_file(path: str) -> dict[str, str]:
    """Names and values. Raises UsageError for a file that cannot be read, BadClientProperty for one that is not
    text."""
    content = read_bytes(path, "the properties file")
    if b"\0" in content:
        raise BadClientProperty(f"the properties file {path} is not ISO-8859-1 text, as Java reads it")
    try:
        return parse_properties(content.removeprefix(b"\xef\xbb\xbf").decode("iso-8859-1"))
    except UsageError as err:
        raise BadClientProperty(f"the properties file {path}: {err}") from err


def read_bytes(path: str, what: str) -> bytes:
    """The whole file, of at most MOST_BYTES. Raises UsageError; its text has `what` the file is."""
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as err:
        raise UsageError(f"{what} {path} cannot be read: {os.strerror(err.errno or 0)}") from err
    except ValueError as err:
        raise UsageError(f"{what} cannot be read: its path contains a NUL") from err
    if len(content) > MOST_BYTES:
        raise UsageError(f"{what} {path} cannot be read: it has more than {MOST_BYTES >> 20} MiB")
    return content


# Removal of secrets from texts, in any of their written forms.


HIDDEN = "[hidden]"
# A shorter secret is hidden only as a separate word: a password "a" would hide every a in a message.
SHORTEST_WITHIN_WORDS = 4


@dataclass(frozen=True, repr=False)
class Secrets:
    """Values that no message, log or table may show; neither does the text of this object."""

    values: tuple[str, ...] = ()

    def __add__(self, other: Secrets) -> Secrets:
        return Secrets(self.values + other.values)

    def hide(self, text: str) -> str:
        """The text with HIDDEN for each secret: as it is, escaped as by repr or JSON, or URL-encoded."""
        written = {form for value in self.values if value.strip() for form in _forms(value)}
        if not written:
            return text
        # The longest comes first, because a password can be a part of another secret.
        patterns = [_pattern(form) for form in sorted(written, key=len, reverse=True)]
        return re.sub("|".join(patterns), HIDDEN, text)


def _forms(value: str) -> set[str]:
    utf8 = value.encode(errors="surrogatepass")
    escaped = (
        repr(value)[1:-1],
        repr(utf8)[2:-1],
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
    )
    return {value, value.strip(), *escaped, quote(utf8), quote(utf8, safe=""), quote_plus(utf8)}


def _pattern(form: str) -> str:
    pattern = re.escape(form)
    return pattern if len(form) >= SHORTEST_WITHIN_WORDS else rf"(?<!\w){pattern}(?!\w)"


# The login module of `sasl.jaas.config`: `<class> required <option>="<value>" ... ;`
#
# Read as Kafka 4.3 reads it (org.apache.kafka.common.security.JaasConfig, over java.io.StreamTokenizer): a value is a
# quoted text or a word of letters, digits, `.`, `-`, `_` and `$` that starts with a letter; backslashes escape within
# quotes; /* */ and // are comments. No message shows any of it but the class and the names of known options.


JAAS_CONFIG = "sasl.jaas.config"
FLAGS = ("required", "requisite", "sufficient", "optional")
# Platforms rename Kafka's packages (Databricks); the classes are the same.
SHADED = "kafkashaded."

LETTER = "A-Za-z_$\u00a0-\U0010ffff"
TOKEN = re.compile(
    rf"""(?P<blank>[\0-\ ]+ | /\*.*?(?:\*/|\Z) | /[^\r\n]*)
       | (?P<word>[{LETTER}][{LETTER}0-9.\-]*)
       | "(?P<double>(?:\\[^\r\n]|[^"\\\r\n])*)"
       | '(?P<single>(?:\\[^\r\n]|[^'\\\r\n])*)'
       | (?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class LoginModule:
    """A Java class and its options, by name."""

    class_name: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def simple_name(self) -> str:
        return self.class_name.rpartition(".")[2]


def login_module(config: str) -> LoginModule:
    """The only login module in the text. Raises BadClientProperty, without any part of the text that may be secret."""
    tokens = list(_tokens(config))
    signs = "".join(text if kind == "sign" else "x" for kind, text in tokens)
    if not re.fullmatch("xx(x=x)*;", signs) or tokens[1][1].lower() not in FLAGS:
        raise BadClientProperty(
            f"{JAAS_CONFIG} is not one login module: it is a line like "
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="..." password="..."; '
            "with a semicolon at its end. Put a value with other characters than letters and digits in quotes; a "
            'double quote or a backslash within them is \\" or \\\\ (in a properties file \\\\" or \\\\\\\\)'
        )
    words = [text for kind, text in tokens[2:] if kind != "sign"]
    return LoginModule(tokens[0][1].removeprefix(SHADED), dict(zip(words[::2], words[1::2], strict=True)))


def _tokens(config: str) -> Iterator[tuple[str, str]]:
    """("word" or "quoted" or "sign", text): signs are all other characters, such as = and ; and digits."""
    for match in TOKEN.finditer(config):
        if match.lastgroup in ("word", "sign"):
            yield match.lastgroup, match[0]
        elif match.lastgroup in ("double", "single"):
            yield "quoted", _unescaped(match[match.lastgroup])


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 8))
        return ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:([0-3][0-7]{0,2}|[4-7][0-7]?)|(.))", one, text, flags=re.DOTALL)
