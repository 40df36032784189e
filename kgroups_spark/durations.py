"""Durations as people type and read them: `15m`, `48h`, `1d12h`. In the code they are milliseconds."""

import re
from datetime import timedelta

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
