"""Moments as people type and read them. In the code they are milliseconds since 1970-01-01T00:00Z."""

import re
from datetime import UTC, datetime, timedelta

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
            f"invalid time {text!r}: use 2026-11-16T06:30, '2026-11-16 06:30:15Z', 2026-11-16T06:30+01:00 "
            "or epoch milliseconds"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return to_epoch_ms(moment.astimezone(UTC))
    except OverflowError as error:
        raise ValueError(f"invalid time {text!r}: it is not in the years 1 to 9999 of UTC") from error


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
