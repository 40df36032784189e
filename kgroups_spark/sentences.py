"""Sentences with the values of a row.

{offsets:counted committed offset}  2 committed offsets        {offsets:was|were}   by the number
{since:time}                        2026-11-16 06:30:00 UTC    {names:some}         a, b, c and 5 more
{retention_ms:duration}             7d                         {size_bytes:size}    1.2 MB
{group_id:word}                     as a word of a shell       {group_id:option}    --group g, for a shell
[, the oldest at {since:time}]      left out if a value is null
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any

from kgroups_spark.counts import counted, first_of, sized
from kgroups_spark.durations import format_duration
from kgroups_spark.escapes import cell_text, shell_option, shell_word
from kgroups_spark.times import format_utc

FORMS: dict[str, Callable[[Any], str]] = {
    "time": format_utc,
    "duration": format_duration,
    "size": sized,
    "some": lambda names: first_of([cell_text(name) for name in sorted(set(map(str, names)))], 3),
    "word": shell_word,
    "option": lambda value: shell_option("--group", value),
    "number": "{:,}".format,
    "": lambda value: cell_text(str(value)),
}


class _Sentence(Formatter):
    def format_field(self, value: Any, form: str) -> str:
        if form.startswith("counted "):
            return counted(value, form.removeprefix("counted "))
        if "|" in form:
            return form.split("|")[bool(value != 1)]
        return FORMS[form](value)


_SENTENCE = _Sentence()
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")


def filled(text: str, row: Mapping[str, Any]) -> str:
    def optional(part: re.Match[str]) -> str:
        names = [name for _, name, _, _ in _SENTENCE.parse(part[1]) if name]
        return "" if any(row[name] is None for name in names) else part[1]

    return _SENTENCE.vformat(_OPTIONAL.sub(optional, text), (), row)
