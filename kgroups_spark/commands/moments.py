"""The moments of --as-of, and whether a lake's history covers them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from kgroups_spark.errors import KgroupsError
from kgroups_spark.reading.group_options import SqlCondition
from kgroups_spark.reading.reader import LakeReader, Rows
from kgroups_spark.times import format_utc, to_datetime
from kgroups_spark.views.known_history import below_places


@dataclass(frozen=True)
class KnownTimes:
    """The moments that a lake's history covers, in log time; None: the log has no times.

    `begins`: the oldest record. `reduced_to`: the newest of the records that `kgroups maintain --keep` has reduced
    (None: none were); as of an older moment the functions fail for their partitions. `incomplete_to`: the time of the
    newest records when an audit last found offsets missing; None: none has. Records that an older moment needs may have
    been compacted away before they were read, or damaged. `ends`: the newest record; for a live cluster also the time
    of the last read.
    """

    begins: datetime | None
    reduced_to: datetime | None
    incomplete_to: datetime | None
    ends: datetime | None

    def later(self, moment: datetime) -> str | None:
        """A note on a moment after the history; None: it is not."""
        if self.ends is not None and moment > self.ends:
            return (
                f"{format_utc(moment)} is after the history of this lake, which ends at {format_utc(self.ends)}: later "
                "states are unknown"
            )
        return None

    def known(self, moment: datetime) -> str:
        """How well history covers the moment, in the words of the function known_as_of; the history has begun."""
        if self.later(moment) is not None:
            return "after"
        if self.reduced_to is not None and moment < self.reduced_to:
            return "reduced"
        return "complete" if self.incomplete_to is None or moment >= self.incomplete_to else "incomplete"

    def closing(self, moment: datetime) -> str:
        """The part of the log that counted."""
        return f"the log up to {format_utc(moment if self.ends is None else min(moment, self.ends))}"

    def notes(self, moment: datetime) -> list[str]:
        """Notes for people on an answer as of the moment."""
        later = self.later(moment)
        if later is not None:
            return [later]
        if self.incomplete_to is not None and moment < self.incomplete_to:
            return [
                f"offsets are missing in the log up to {format_utc(self.incomplete_to)} (compacted before it was read, "
                "or damaged): as of an earlier moment, groups, members and offsets may be missing or stale (view "
                "known_history)"
            ]
        return []


def incomplete_history(reader: LakeReader) -> list[str]:
    """Notes for as-of functions in SQL: the time up to which their answers may be incomplete."""
    known = replace(known_times(reader), begins=None, reduced_to=None, ends=None)
    return known.notes(datetime.min.replace(tzinfo=UTC))


# The log offsets up to which the history of the groups' offsets partitions has been reduced.
_REDUCED_TO = """
SELECT offsets_partition, max(log_offset) AS log_offset FROM checkpoints
WHERE reason = 'keep' AND log IS NULL
  AND offsets_partition IN (SELECT offsets_partition FROM group_versions WHERE {groups})
GROUP BY offsets_partition"""
# The newest log time below them: the last record below each always stays.
_NEWEST_BELOW = """
SELECT max(log_timestamp) AS moment
FROM (
  SELECT log_timestamp FROM offset_commits WHERE {below}
  UNION ALL
  SELECT log_timestamp FROM group_records WHERE {below}
) AS records
WHERE (log_timestamp > (SELECT max(believed_until) FROM last_audit)) IS NOT TRUE"""


def reduced_history(reader: LakeReader, groups: SqlCondition, since: datetime | None) -> list[str]:
    """A note if `kgroups maintain --keep` has reduced the history of these groups from `since` on (None: from its
    begin): what happened then can no longer be listed."""
    reduced = reader.sql(_REDUCED_TO.format(groups=groups.sql), **groups.parameters)
    if not reduced:
        return []
    [row] = reader.sql(_NEWEST_BELOW.format(below=below_places(reduced)))
    if row["moment"] is None or (since is not None and since > row["moment"]):
        return []
    return [
        f"history up to {format_utc(row['moment'])} has been reduced (kgroups maintain --keep): events up to then are "
        "gone, and all but the last commit of each partition"
    ]


def known_times(reader: LakeReader) -> KnownTimes:
    """The times of the lake as its last finished audit left it."""
    [row] = reader.sql("SELECT begins, reduced_to, incomplete_to, ends FROM known_history")
    return KnownTimes(**row)


def times_as_of(reader: LakeReader, moment: datetime) -> KnownTimes:
    """The same, for an answer as of the moment. Raises KgroupsError if the history begins later. (Where it has been
    reduced, its oldest record is not its beginning, and the functions fail with the reason.)"""
    times = known_times(reader)
    if times.reduced_to is None and times.begins is not None and moment < times.begins:
        raise KgroupsError(
            f"{format_utc(moment)} is before the history of this lake, which begins at {format_utc(times.begins)}: "
            "nothing is known about that time"
        )
    return times


@dataclass(frozen=True)
class Moment:
    """The moment of an answer: `as_of`, for which the log up to then counts; None: the last audit. `known`: as in the
    function known_as_of; None: the last audit's state was asked for."""

    reader: LakeReader
    as_of: datetime | None
    times: KnownTimes | None
    known: str | None

    @classmethod
    def of(cls, reader: LakeReader, as_of_ms: int | None) -> Moment:
        """The moment of --as-of. Raises KgroupsError if no audit has finished, or if history begins later."""
        reader.require_audit()
        if as_of_ms is None:
            return cls(reader, None, None, None)
        as_of = to_datetime(as_of_ms)
        times = times_as_of(reader, as_of)
        return cls(reader, as_of, times, times.known(as_of))

    def source(self, table: str) -> str:
        """The table, or its function as of the moment, in SQL."""
        return table if self.as_of is None else f"{table}_as_of(:as_of)"

    @property
    def parameters(self) -> dict[str, Any]:
        return {} if self.as_of is None else {"as_of": self.as_of}

    def rows(self, table: str) -> Rows:
        """All rows of a small table."""
        if self.as_of is None:
            return self.reader.rows(table)
        return self.reader.sql(f"SELECT * FROM {self.source(table)}", **self.parameters)

    def closing(self, found: str) -> list[str]:
        """The closing line: the part of the log in which this was found; notes on that part."""
        if self.times is None or self.as_of is None:
            return [f"{found} ({self.reader.known_as_of()})"]
        return [f"{found} ({self.times.closing(self.as_of)})", *self.times.notes(self.as_of)]
