"""Moments as people type and read them. In the code they are milliseconds since 1970-01-01T00:00Z."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher, get_close_matches
from typing import Any, TypeVar

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# The last millisecond of year 9999: few readers of a table can show later times.
LAST_MS = (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC) - _EPOCH) // _MILLISECOND


def parse_time(text: str) -> int:
    """Epoch milliseconds of an ISO 8601 time, or of epoch milliseconds as text. The time is UTC if it names no zone;
    `T` or a blank before the hours; seconds are optional; a date alone is its midnight. Raises ValueError."""
    word = text.strip()
    if re.fullmatch(r"[0-9]+", word):
        return _epoch_ms(text, int(word))
    try:
        moment = datetime.fromisoformat(word)
    except ValueError as error:
        raise ValueError(
            f"invalid time {text!r}: use 2026-11-16T06:30, '2026-11-16 06:30:15Z', 2026-11-16T06:30+01:00, "
            "epoch milliseconds, or -6h"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return to_epoch_ms(moment.astimezone(UTC))
    except OverflowError as error:
        raise ValueError(f"invalid time {text!r}: it is not in the years 1 to 9999 of UTC") from error


class FromAsOf(int):
    """Milliseconds from the as_of of the lake's last audit, which is known only when the lake is open."""


_RELATIVE = re.compile(r"([+-]?)((?:[0-9]+(?:ms|[smhd]))+)")


def parse_moment(text: str) -> int | FromAsOf:
    """As `parse_time`, or a duration: `2d` and `-2d` are two days before as_of, `+2d` after. Raises ValueError."""
    relative = _RELATIVE.fullmatch(text.strip().lower())
    if relative is None:
        return parse_time(text)
    duration_ms = parse_duration(relative[2])
    return FromAsOf(duration_ms if relative[1] == "+" else -duration_ms)


def _epoch_ms(text: str, number: int) -> int:
    """A bare number is milliseconds. Raises ValueError if it can only be seconds, or a date without its dashes."""
    word = text.strip()
    if len(word) < 12:  # 12 digits begin in 1973, before any Kafka
        meant = f"a date is {word[:4]}-{word[4:6]}-{word[6:]}" if len(word) == 8 else "for seconds, append 000"
        raise ValueError(f"{text!r} has too few digits for epoch milliseconds (13 today); {meant}")
    if number > LAST_MS:
        raise ValueError(f"{text!r} has too many digits for epoch milliseconds: it is later than the year 9999")
    return number


def to_epoch_ms(moment: datetime) -> int:
    """Milliseconds since the epoch of a datetime with a zone, rounded down."""
    return (moment - _EPOCH) // _MILLISECOND


def to_datetime(time_ms: int) -> datetime:
    """The UTC datetime of epoch milliseconds, exact."""
    return _EPOCH + time_ms * _MILLISECOND


def format_time(moment: datetime | int) -> str:
    """`2026-11-16T06:34:36.650Z`, of a datetime with a zone or of epoch milliseconds."""
    if isinstance(moment, int):
        moment = to_datetime(moment)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def format_time_for_people(moment: datetime | int) -> str:
    """`2026-11-16 06:34:36`, in UTC, for tables on a screen, whose headings name the zone."""
    return format_time(moment)[:19].replace("T", " ")


def format_utc(moment: datetime | int) -> str:
    """`2026-11-16 06:34:36 UTC`, for sentences."""
    return f"{format_time_for_people(moment)} UTC"


# Counts and sizes as a person reads them.


def counted(number: int, noun: str) -> str:
    """`1 group`, `35,230 groups`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def group_count(rows: Iterable[Mapping[str, Any]]) -> int:
    """The number of groups in these rows. One that is in two offsets partitions has rows of both, and is one group."""
    return len({row["group_id"] for row in rows})


def first_of(names: Sequence[str], most: int, number: int | None = None) -> str:
    """The first names, and the number of others: `a, b, c and 5 more`. `number`: of all (None: these are all)."""
    more = (len(names) if number is None else number) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def sized(size_bytes: int) -> str:
    """`980 B`, `12.3 kB`, `738.2 MB`, `2,140.0 MB`, in powers of ten, like sizes of disks."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    if size_bytes < 1_000_000:
        return f"{size_bytes / 1e3:.1f} kB"
    return f"{size_bytes / 1e6:,.1f} MB"


# The largest of Java's int and long.
JAVA_INT_MAX, JAVA_LONG_MAX = (1 << 31) - 1, (1 << 63) - 1


def java_number(value: str, least: int, most: int) -> int | None:
    """The number, as Java's Integer.parseInt takes it after trim(); None: it is none, or out of bounds."""
    text = value.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        return None
    return number if least <= (number := int(text)) <= most else None


# Durations as people type and read them: `15m`, `48h`, `1d12h`. In the code they are milliseconds.


HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
UNITS_MS = {"d": DAY_MS, "h": HOUR_MS, "m": 60_000, "s": 1_000, "ms": 1}
LONGEST_MS = 36_500 * DAY_MS  # a century: beyond it, a time plus a duration may be outside TIMESTAMP's range

_PART = re.compile(r"([0-9]+)(ms|[smhd])")


def parse_duration(text: str) -> int:
    """Milliseconds of `500ms`, `30s`, `15m`, `48h`, `7d`, several in a row (`1d12h`), or 0. Raises ValueError."""
    word = text.strip().lower()
    if re.fullmatch(r"0+", word):
        return 0
    if re.fullmatch(r"[0-9]+", word):
        raise ValueError(f"{text!r} has no unit: use {word}ms, {word}s, {word}m, {word}h or {word}d")
    parts = _PART.findall(word)
    if not parts or "".join(number + unit for number, unit in parts) != word:
        raise ValueError(f"invalid duration {text!r}: use 15m, 48h or 7d (units ms, s, m, h, d)")
    duration_ms = sum(int(number) * UNITS_MS[unit] for number, unit in parts)
    if duration_ms > LONGEST_MS:
        raise ValueError(f"{text!r} is longer than a hundred years (36500d)")
    return duration_ms


def format_duration(duration_ms: int) -> str:
    """The duration in its two largest units: `6d 23h`, `15m`, `0s`; with a minus sign for the past."""
    if duration_ms < 0:
        return "-" + format_duration(-duration_ms)
    parts = []
    rest = duration_ms
    for unit, size in UNITS_MS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break  # `7d 3m` would look exact about the hours
        if len(parts) == 2:
            break
    return " ".join(parts) or "0s"


def exact_duration(duration: timedelta) -> str:
    """The duration in all its units, without loss: `1d 2h 5s`, `-4m`, `0.25ms`, `0s`."""
    rest, parts = abs(duration), []
    for unit, size in UNITS_MS.items():
        count, rest = divmod(rest, timedelta(milliseconds=size))
        if unit == "ms" and rest:
            parts.append(f"{count + rest / timedelta(milliseconds=1):g}ms")
        elif count:
            parts.append(f"{count}{unit}")
    return ("-" if duration < timedelta() else "") + (" ".join(parts) or "0s")


# Numbers of partitions as a person reads them.


def number_ranges(numbers: Iterable[int]) -> str:
    """`0-7, 12` for the numbers 0 to 7 and 12, which must be in ascending order."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def named_partitions(numbers: Sequence[int]) -> str:
    """`partition 7` or `partitions 2-3, 7`, for numbers in ascending order."""
    return f"partition{'' if len(numbers) == 1 else 's'} {number_ranges(numbers)}"


# The names that a mistyped one was probably meant to be.


_AS_NEAR = 0.2  # a name is left out if another one is nearer by more than this


def did_you_mean(word: str, known: Iterable[str], spelled: Callable[[str], str] = str) -> str:
    """`; did you mean a or b?` with at most three known names like `word`, ignoring case, as `spelled` spells them,
    or the one name that is shown as `word`; otherwise an empty text."""
    names = list(known)
    if (shown := next((name for name in names if cell_text(name) == word), word)) != word:
        return f"; did you mean {spelled(shown)}?"
    by_lower_case = {name.lower(): name for name in names}
    near = get_close_matches(word.lower(), by_lower_case, n=3, cutoff=0.6)
    if not near:
        return ""
    likeness = [SequenceMatcher(a=name, b=word.lower()).ratio() for name in near]
    near = [name for name, ratio in zip(near, likeness, strict=True) if ratio >= max(likeness) - _AS_NEAR]
    return f"; did you mean {' or '.join(spelled(by_lower_case[name]) for name in near)}?"


def suggested(word: str, known: Sequence[str], aliases: Iterable[str] = ()) -> str:
    """As `did_you_mean`, also of `aliases`; if no name is like `word`, `; use a, b, c` with all known names."""
    return did_you_mean(word, [*known, *aliases]) or f"; use {', '.join(known)}"


# Characters that a terminal would obey, spelled out (ESC is `\x1b`): any client may choose a group's name. All that
# Unicode does not call printable: control characters, bidirectional and invisible format characters, separators of
# lines and paragraphs, unassigned ones.


# Text that already has the form of a spelled-out character.
_LOOKS_ESCAPED = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])")
# The shown forms of an empty text, and of the text that looks like it.
SPECIAL = {"": "''", "''": r"\x27\x27"}
# Blanks that are invisible, or that look like the gap between two columns.
_HIDDEN_BLANK = re.compile(r"^ | $|(?<= ) ")


def printable(text: str) -> str:
    r"""The text with control characters, including line feeds, spelled out for a sentence: `orders\x1bc`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def cell_text(text: str) -> str:
    r"""The text for a table's cell: two different texts never look alike.

    As `printable`; also, blanks at an end, and those after a blank, become `\x20`. If one of these forms is in the
    result, backslashes of the text itself are doubled. An empty text becomes `''`. A name of ordinary characters stays
    unchanged.
    """
    if text in SPECIAL:
        return SPECIAL[text]
    if text.isprintable() and not _HIDDEN_BLANK.search(text) and not _LOOKS_ESCAPED.search(text):
        return text
    return printable(_HIDDEN_BLANK.sub(r"\\x20", text.replace("\\", "\\\\")))


def quoted(name: str) -> str:
    """The name in quotes, for a sentence."""
    return f"'{cell_text(name)}'" if name else cell_text(name)


def json_text(json: str) -> str:
    r"""Equivalent JSON with printable characters only: `\u009b` is an escape in JSON."""
    if json.isprintable():
        return json
    return "".join(char if char.isprintable() else _json_escape(char) for char in json)


def shell_word(text: str) -> str:
    r"""The text as one word of a shell's command line; control characters have the form `$'...'` of bash and zsh."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = "".join(
        "\\" + char if char in "\\'" else char if char.isprintable() else _bytes_escape(char) for char in text
    )
    return f"$'{escaped}'"


def shell_option(name: str, value: str) -> str:
    """An option of kgroups with a value, as words of a shell's command line: a value that begins with a dash needs the
    form with `=`, or it would be taken for an option."""
    return f"{name}{'=' if value.startswith('-') else ' '}{shell_word(value)}"


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _bytes_escape(char: str) -> str:
    """The escapes of the character's bytes in UTF-8: bash reads other escapes in the locale's encoding."""
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))


# Sentences with the values of a row.
#
# {offsets:counted committed offset}  2 committed offsets        {offsets:was|were}   by the number
# {since:time}                        2026-11-16 06:30:00 UTC    {names:some}         a, b, c and 5 more
# {retention_ms:duration}             7d                         {size_bytes:size}    1.2 MB
# {group_id:word}                     as a word of a shell       {group_id:option}    --group g, for a shell
# [, the oldest at {since:time}]      left out if a value is null


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


_FIELD = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")


def _shown(value: Any, form: str) -> str:
    if form.startswith("counted "):
        return counted(value, form.removeprefix("counted "))
    if "|" in form:
        return form.split("|")[bool(value != 1)]
    return FORMS[form](value)


def filled(text: str, row: Mapping[str, Any]) -> str:
    def optional(part: re.Match[str]) -> str:
        return "" if any(row[name] is None for name, _ in _FIELD.findall(part[1])) else part[1]

    return _FIELD.sub(lambda field: _shown(row[field[1]], field[2] or ""), _OPTIONAL.sub(optional, text))


# Work divided among tasks by its weight.


Item = TypeVar("Item")


def by_weight(items: Iterable[Item], weight: Callable[[Item], int], tasks: int) -> list[list[Item]]:
    """The items of each of at most `tasks` tasks, none of which is empty, in the order given. The heaviest item is
    assigned first, and each one to the lightest task."""
    # Weight plus one, so that items without any weight are spread as well.
    given = [(weight(item) + 1, number, item) for number, item in enumerate(items)]
    found: list[list[tuple[int, Item]]] = [[] for _ in range(max(1, min(tasks, len(given))))]
    loads = [0] * len(found)
    for load, number, item in sorted(given, key=lambda each: (-each[0], each[1])):
        lightest = loads.index(min(loads))
        found[lightest].append((number, item))
        loads[lightest] += load
    return [[item for _, item in sorted(of_task, key=lambda each: each[0])] for of_task in found]


# Groups that an application makes for one run: their names differ only by a UUID or a number.


# With fewer, one sentence saves no lines.
MANY = 10

# A UUID with its dashes or without; a number of five digits or more between other characters; a number at the end.
_GENERATED = re.compile(
    r"(?P<uuid>[0-9a-f]{8}(?P<dash>-?)(?:[0-9a-f]{4}(?P=dash)){3}[0-9a-f]{12})"
    r"|(?<![0-9a-z])[0-9]{5,}(?![0-9a-z])|(?<![0-9])[0-9]+$",
    re.IGNORECASE,
)


def pattern(group_id: str) -> str | None:
    """The name with `<uuid>` and `<number>` for its generated parts, such as `report-<uuid>`; None: it has none."""
    found = _GENERATED.sub(lambda part: "<uuid>" if part["uuid"] else "<number>", group_id)
    return None if found == group_id else found


def throwaway_groups(empty: Iterable[str], in_use: Iterable[str]) -> dict[str, list[str]]:
    """By pattern, the names of at least ten groups without members that were most likely made for one run each.
    `empty`, `in_use`: the names of groups without members, and with some. Numbers up to 99 may be chosen names
    (instances, shards), and so may those of groups most of which have members."""
    found: dict[str | None, set[str]] = {}
    for group_id in empty:
        found.setdefault(pattern(group_id), set()).add(group_id)
    many = {its: names for its, names in found.items() if its is not None and len(names) >= MANY}
    others: dict[str, set[str]] = {its: set() for its in many}
    for group_id in in_use if many else ():
        if (its := pattern(group_id)) in others:
            others[its].add(group_id)
    return {
        its: sorted(names)
        for its, names in sorted(many.items())
        if "<uuid>" in its
        or (len(names) > len(others[its]) and max(map(len, names)) - len(its.replace("<number>", "")) > 2)
    }


def patterns_of(groups: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The patterns of the names in `throwaway_groups`, by name. `groups`: all groups (group_id, member_count)."""
    names: tuple[list[str], list[str]] = [], []
    for row in groups:
        names[bool(row["member_count"])].append(row["group_id"])
    return {name: its for its, made in throwaway_groups(*names).items() for name in made}


# Events and their causes for people, on a screen and in the report.


EVENTS = {
    "group_created": "group created",
    "state_changed": "state",
    "generation_changed": "generation",
    "member_joined": "member joined",
    "member_left": "member left",
    "member_replaced": "static member replaced",
    "assignment_changed": "assignment",
    "group_type_changed": "group type",
    "group_removed": "group removed",
    "offset_rewound": "offset rewound",
    "offset_skipped": "offset skipped ahead",
    "offset_removed": "offset removed",
    "offset_restarted": "offset committed after its removal",
    "offset_unset": "offset set to none",
    "topic_recreated": "topic deleted and created again",
    "share_partition_initialized": "share partition initialized",
    "share_offset_reset": "share partition reset",
    "share_offsets_deleted": "share partition's offsets deleted",
    "transaction_timed_out": "transaction aborted: it was open for longer than its timeout",
    "producer_fenced": "transaction aborted: its producer was fenced",
}
# Causes of removals, of moves, and of departures of members.
CAUSES = {
    "expired": "expired: it was due, and the checks of the brokers remove what is due",
    "probably_expired": "expired, most likely: long due, and nothing was written until then, so the brokers were off",
    "group_deleted": "somebody deleted the group: by the audit's retention it was not due to expire",
    "offset_deleted": "somebody deleted the offset: by the audit's retention it was not due to expire",
    "topic_deleted": "the topic was deleted",
    "no_members": "the group had no members: an admin reset, most likely",
    "self_assigned": "a restart of consumers that assign themselves, or a reset: the log cannot tell",
    "with_members": "while the group had members",
    "transaction": "by a transaction",
    "topic_recreated": "the topic was deleted and created again",
    "left": "it left, or Admin removed it",
    "session_expired": "its session expired",
    "put_out_while_revoking": "put out: it did not release its partitions in time",
    "static_expired": "a static member whose session expired",
    "replaced": "another member took its group.instance.id",
    "unknown": "unknown: the log leaves several explanations, or none",
}


def cause_text(cause: str | None) -> str | None:
    """The cause in words, `probably_` at its end; one that this version does not know as it is; None: there is none."""
    if cause is None or cause in CAUSES:
        return cause and CAUSES[cause]
    sure = cause.removeprefix("probably_")
    return CAUSES.get(sure, sure) + ("" if cause == sure else ", most likely")
