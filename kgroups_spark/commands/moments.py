"""Moments that --as-of names, and what a lake knows of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kgroups_spark.commands.reading import LakeReader
from kgroups_spark.times import format_time_for_people

# What an audit that found offsets missing had not seen: records of its new span, without those it read once more. Where
# that begins, the audit before says: of the first one asked for it is known only if there is none before.
_SPANS = """
SELECT
  max(newest_log_timestamp) AS newest,
  max(CASE WHEN is_known AND end_offset - start_offset > records - records_reread THEN newest_log_timestamp END)
    AS incomplete_to,
  max(CASE WHEN NOT is_known THEN newest_log_timestamp END) AS not_known_to
FROM (
  SELECT
    end_offset,
    records,
    records_reread,
    newest_log_timestamp,
    :first <= 1 OR lag(end_offset) OVER (PARTITION BY offsets_partition ORDER BY audit_id) IS NOT NULL AS is_known,
    greatest(
      start_offset, coalesce(lag(end_offset) OVER (PARTITION BY offsets_partition ORDER BY audit_id), start_offset)
    ) AS start_offset
  FROM audit_partitions
  WHERE audit_id >= :first
) AS spans
"""
# So many of the newest audits are asked first, then always as many times more.
_FIRST_LOOK = 2
_FURTHER_LOOK = 16
_OLDEST = " UNION ALL ".join(
    f"SELECT min(log_timestamp) AS log_timestamp FROM {table}"
    for table in ("offset_commits", "group_records", "transaction_markers", "quarantine")
)


@dataclass(frozen=True)
class KnownTimes:
    """What a lake's history covers, in log time; null: the log has no times.

    `begins`: the oldest record. `incomplete_to`: where the newest records stood when an audit last found offsets
    missing; what an older moment needs may have been compacted away before it was read. `ends`: the newest record, of a
    live cluster also when it was last read.
    """

    begins: datetime | None
    incomplete_to: datetime | None
    ends: datetime | None

    def outside(self, moment: datetime) -> str | None:
        """Why nothing is known of the moment; None: it lies inside of the history."""
        if self.begins is not None and moment < self.begins:
            return (
                f"{_shown(moment)} lies before the history of this lake, which begins at {_shown(self.begins)}: "
                "what there was then is not known"
            )
        if self.ends is not None and moment > self.ends:
            return (
                f"{_shown(moment)} lies behind the history of this lake, which ends at {_shown(self.ends)}: "
                "what came after is not known"
            )
        return None

    def closing(self, moment: datetime) -> list[str]:
        """Up to where the log counted, where any of it did."""
        if self.begins is not None and moment < self.begins:
            return []
        return [f"the log up to {_shown(moment if self.ends is None else min(moment, self.ends))}"]

    def notes(self, moment: datetime) -> list[str]:
        """What a person should know about an answer as of the moment."""
        why = self.outside(moment)
        if why is not None:
            return [why]
        if self.incomplete_to is not None and moment < self.incomplete_to:
            return [
                f"the log up to {_shown(self.incomplete_to)} had been compacted before it was read: as of an earlier "
                "moment groups, members and offsets may be missing, or older ones may be shown (view coverage)"
            ]
        return []


def incomplete_history(reader: LakeReader) -> list[str]:
    """For whoever asks as-of functions in SQL: up to when their answers may lack something."""
    return KnownTimes(None, _spans(reader)["incomplete_to"], None).notes(datetime.min.replace(tzinfo=UTC))


def known_times(reader: LakeReader) -> KnownTimes:
    """Of the lake as its last finished audit left it."""
    spans = _spans(reader)
    [oldest] = reader.sql(f"SELECT min(log_timestamp) AS begins FROM ({_OLDEST}) AS oldest")
    ends, as_of = spans["newest"], reader.last_audit["as_of"]
    if reader.last_audit["source"] == "kafka" and ends is not None:
        ends = max(ends, as_of)
    return KnownTimes(oldest["begins"], spans["incomplete_to"], ends)


def _spans(reader: LakeReader) -> dict[str, Any]:
    """`newest` and `incomplete_to` of all audits, from no more of the newest ones than it takes.

    The newest time of a partition's log only rises from audit to audit: if a late audit found offsets missing, earlier
    ones cannot have found any missing behind it.

        audit           7     8     9    10
        newest time    10:00 11:00 12:00 13:00
        missing         yes   no    yes   no      of 9 and 10 are asked: of 9 alone it is not known, its time is 12:00;
                                                  then all four: 12:00, and nothing not known is behind it
    """
    look = _FIRST_LOOK
    while True:
        first = max(0, reader.audit_id - look + 1)
        [spans] = reader.sql(_SPANS, first=first)
        incomplete_to, not_known_to = spans["incomplete_to"], spans["not_known_to"]
        is_behind = not_known_to is not None and incomplete_to is not None and not_known_to <= incomplete_to
        if first <= 1 or is_behind:
            return spans
        look *= _FURTHER_LOOK


def _shown(moment: datetime) -> str:
    return f"{format_time_for_people(moment)} UTC"
