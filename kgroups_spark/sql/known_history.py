"""The moments that a lake's history covers: the row of the view known_history, at little cost.

A view that read the entries of all audits and the log times of the whole history each time would be slow. A reader
stays with one audit. It therefore finds the row once, from as few of the newest audits as possible, and makes the view
from it. The tests have the query over everything (tests/twin/known_history.sql).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from kgroups_spark.lake.last_finished import IS_FINISHED
from kgroups_spark.sql.views import Dialect, statement
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.definitions import KEEP
from kgroups_spark.tables.schemas import LOG_TABLES

NAME = "known_history"
# The views and tables that the queries here read.
READ = ("last_audit", "audit_partitions", "replaced_ranges", *LOG_TABLES)
# The oldest log time counts only if another one is at most so long after it: one record stamped 1970 begins no history.
_FOLLOWED = timedelta(days=30)
# An audit found offsets missing if its new span has more offsets than records; those read again do not count. The span
# begins at the end of the previous audit, so offsets that were lost in between are missing, and that of the first audit
# at 0. The span of the first audit in a query is known only if no audit is before it. A corrupt batch counts as the
# records that it had, but they are as good as missing.
_SPANS = """
SELECT
  max(CASE WHEN audit_id = :last THEN newest_log_timestamp END) AS newest,
  max(
    CASE
      WHEN is_known AND (is_damaged OR end_offset - start_offset > records - records_reread) THEN newest_log_timestamp
    END
  ) AS incomplete_to,
  max(CASE WHEN NOT is_known THEN newest_log_timestamp END) AS not_known_to
FROM (
  SELECT
    read.audit_id,
    read.end_offset,
    read.records,
    read.records_reread,
    read.newest_log_timestamp,
    :first <= 1 OR read.end_before IS NOT NULL AS is_known,
    least(coalesce(read.end_before, 0), min(replaced.from_offset)) AS start_offset,
    count(damage.audit_id) > 0 AS is_damaged
  FROM (
    SELECT
      *,
      lag(audit_id) OVER (PARTITION BY offsets_partition ORDER BY audit_id) AS audit_before,
      lag(end_offset) OVER (PARTITION BY offsets_partition ORDER BY audit_id) AS end_before
    FROM audit_partitions
    WHERE audit_id >= :first
  ) AS read
  LEFT JOIN replaced_ranges AS replaced
    ON replaced.offsets_partition = read.offsets_partition
    AND replaced.topic IS NULL
    AND replaced.audit_id > read.audit_before
    AND replaced.audit_id <= read.audit_id
  LEFT JOIN (
    SELECT DISTINCT audit_id, offsets_partition FROM quarantine WHERE reason = 'corrupt_batch' AND audit_id >= :first
  ) AS damage
    ON damage.offsets_partition = read.offsets_partition AND damage.audit_id = read.audit_id
  GROUP BY
    read.audit_id, read.end_offset, read.records, read.records_reread, read.newest_log_timestamp, read.end_before
) AS spans
"""
# The column `begins`: the oldest log time of each day, and whether another one follows it soon.
_TIMES = " UNION ALL ".join(f"SELECT log_timestamp FROM {name}" for name in LOG_TABLES)
_BEGINS = f"""
SELECT coalesce(min(CASE WHEN is_followed THEN oldest END), min(oldest)) AS begins
FROM (
  SELECT
    min(log_timestamp) AS oldest,
    max(log_timestamp) > min(log_timestamp)
    OR lead(min(log_timestamp)) OVER (ORDER BY min(log_timestamp))
    <= min(log_timestamp) + INTERVAL '{_FOLLOWED.days}' DAY AS is_followed
  FROM ({_TIMES}) AS times
  WHERE log_timestamp IS NOT NULL
  GROUP BY date_trunc('day', log_timestamp)
) AS days
"""
# The column `reduced_to`; `{below}`: the records below the kept states.
_PLACES = " UNION ALL ".join(f"SELECT offsets_partition, log_offset, log_timestamp FROM {name}" for name in LOG_TABLES)
_REDUCED_TO = f"""
SELECT max(log_timestamp) AS reduced_to
FROM ({_PLACES}) AS records
WHERE ({{below}}) AND (log_timestamp > (SELECT max(believed_until) FROM last_audit)) IS NOT TRUE
"""
_OF_KEPT = (
    Condition("reason", "==", KEEP),
    Condition("log", "is null"),
    Condition("record_offset", "is null"),  # not the state's offsets, of which there may be millions
)
# The number of newest audits in the first query; each next query has this many times more.
_FIRST_LOOK = 2
_FURTHER_LOOK = 16


class Spans(NamedTuple):
    """`newest`: log time up to which the last audit read. `incomplete_to`: the newest log time when an audit last found
    offsets missing; None: none has."""

    newest: datetime | None
    incomplete_to: datetime | None


def spans(sql: Callable[..., dict[str, Any]], audit_id: int) -> Spans:
    """The row from as few of the newest audits as possible. `sql` returns the row of a query with parameters as :name,
    `audit_id` is the last finished audit.

    The newest time of a partition's log only increases from audit to audit. So if a late audit found offsets missing,
    earlier ones cannot have found any missing after it.

        audit           7     8     9    10
        newest time    10:00 11:00 12:00 13:00
        missing         yes   no    yes   no      the first query has 9 and 10; 9 alone is not known, its time is 12:00;
                                                  the next has all four: 12:00, and nothing unknown is after it
    """
    look = _FIRST_LOOK
    while True:
        first = max(0, audit_id - look + 1)
        found = sql(_SPANS, first=first, last=audit_id)
        incomplete_to, not_known_to = found["incomplete_to"], found["not_known_to"]
        is_behind = not_known_to is not None and incomplete_to is not None and not_known_to <= incomplete_to
        if first <= 1 or is_behind:
            return Spans(found["newest"], incomplete_to)
        look *= _FURTHER_LOOK


def begins(sql: Callable[..., dict[str, Any]], bounds: Collection[datetime] | None = None) -> datetime | None:
    """The column `begins`; None: history has no times. `sql`: as in `spans`. `bounds`: the oldest and the newest log
    time of each file, which are enough in most lakes (None: not all are known)."""
    if bounds is not None:
        in_order = sorted(set(bounds))
        if len(in_order) < 2 or in_order[1] - in_order[0] <= _FOLLOWED:
            return next(iter(in_order), None)
    found: datetime | None = sql(_BEGINS)["begins"]
    return found


def below_places(places: Iterable[Mapping[str, Any]]) -> str:
    """The condition in SQL of records below one of these offsets, at most one a partition; "": there are none."""
    return " OR ".join(
        f"(offsets_partition = {each['offsets_partition']} AND log_offset < {each['log_offset']})" for each in places
    )


def reduced_to(sql: Callable[..., dict[str, Any]], rows: Callable[..., pa.Table]) -> datetime | None:
    """The column `reduced_to`; None: nothing has been reduced. `sql` and `rows`: as in `KnownRow.of`."""
    kept = rows("checkpoints", ["offsets_partition", "log_offset"], _OF_KEPT).group_by("offsets_partition")
    below = below_places(
        kept.aggregate([("log_offset", "max")]).rename_columns({"log_offset_max": "log_offset"}).to_pylist()
    )
    found: datetime | None = sql(_REDUCED_TO.format(below=below))["reduced_to"] if below else None
    return found


class KnownRow(NamedTuple):
    """The columns of the view."""

    begins: datetime | None
    reduced_to: datetime | None
    incomplete_to: datetime | None
    ends: datetime | None

    @classmethod
    def of(
        cls, audit_id: int, sql: Callable[..., dict[str, Any]], rows: Callable[..., pa.Table], begins: datetime | None
    ) -> KnownRow:
        """The row as that audit left the lake. `sql`: as in `spans`; `rows`: (table, columns, conditions) -> its
        rows."""
        newest, incomplete_to = spans(sql, audit_id)
        reduced = reduced_to(sql, rows)
        conditions = [Condition("audit_id", "==", audit_id), IS_FINISHED]
        for audit in rows("audits", ["source", "as_of"], conditions).to_pylist():
            # A live cluster's history is known up to the time of reading.
            if audit["source"] == "kafka" and newest is not None and audit["as_of"] is not None:
                return cls(begins, reduced, incomplete_to, max(newest, audit["as_of"]))
        return cls(begins, reduced, incomplete_to, newest)

    def view_sql(self, dialect: Dialect) -> str:
        """The statement that makes the view with this row alone."""
        row = ", ".join(f"CAST({_text(moment)} AS TIMESTAMPTZ) AS {name}" for name, moment in self._asdict().items())
        return statement(NAME, f"SELECT {row}", dialect)


def _text(moment: datetime | None) -> str:
    return "NULL" if moment is None else f"'{moment.isoformat(sep=' ')}'"


def inlined(query: str, parameters: Mapping[str, int]) -> str:
    """The query with the values of its parameters in it."""
    for name, value in parameters.items():
        query = query.replace(f":{name}", str(value))
    return query
