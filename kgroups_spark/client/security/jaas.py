"""The login module of `sasl.jaas.config`: `<class> required <option>="<value>" ... ;`

Read as Kafka 4.3 reads it (org.apache.kafka.common.security.JaasConfig, over java.io.StreamTokenizer): a value is a
quoted text or a word of letters, digits, `.`, `-`, `_` and `$` that starts with a letter; backslashes escape within
quotes; /* */ and // are comments. No message shows any of it but the class and the names of known options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kgroups_spark.client.property import BadClientProperty

NAME = "sasl.jaas.config"
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
    tokens = _tokens(config)
    kind, class_name = next(tokens, ("sign", ""))
    if kind == "sign":
        raise BadClientProperty(f"{NAME} names no login module: use {_example()}")
    kind, flag = next(tokens, ("sign", ""))
    if kind == "sign" or flag.lower() not in FLAGS:
        raise BadClientProperty(f"{NAME} has none of {', '.join(FLAGS)} after the class: use {_example()}")
    options = _options(tokens)
    if next(tokens, None):
        raise BadClientProperty(f"{NAME} continues after its semicolon: a client has one login module")
    return LoginModule(class_name.removeprefix(SHADED), options)


def _options(tokens: Iterator[tuple[str, str]]) -> dict[str, str]:
    options: dict[str, str] = {}
    for kind, name in tokens:
        if (kind, name) == ("sign", ";"):
            return options
        equals, value = next(tokens, ("sign", "")), next(tokens, ("sign", ""))
        if kind == "sign" or equals != ("sign", "=") or value[0] == "sign":
            raise BadClientProperty(
                f'{NAME}: option {len(options) + 1} is not name="value". Put a value with characters other than '
                'letters and digits in double quotes; a double quote or a backslash within them is \\" or \\\\ '
                '(in a properties file \\\\" or \\\\\\\\), and a semicolon ends the whole'
            )
        options[name] = value[1]
    raise BadClientProperty(f"{NAME} does not end with a semicolon: use {_example()}")


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


def _example() -> str:
    return (
        'a line like org.apache.kafka.common.security.scram.ScramLoginModule required username="..." password="..."; '
        "with a semicolon at its end"
    )
