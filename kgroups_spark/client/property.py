"""One property of a Kafka client: its errors, and its value as a number or a word."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kgroups_spark.errors import UsageError
from kgroups_spark.nearest import did_you_mean


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


def truth(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise BadClientProperty(f"{name} must be true or false, not {shown(value)}")
    return value.lower() == "true"


def listed(value: str) -> list[str]:
    """The items of a list as Kafka writes it: separated by commas, blanks around them dropped."""
    return [item.strip() for item in value.split(",") if item.strip()]
