"""how far each group lags, since when, and what it has lost

Prints one row for each group at the newest audit of a live cluster, the largest lag first; with --group one row for
each partition of these groups. TREND has the lag at each live audit, the newest last, on a scale from 0 to the largest:
one character an audit, a blank where the lag is unknown. CHANGE is the lag's growth since the first of these audits,
LOST the part of the lag that the topic has deleted. BEHIND estimates how long ago the first unread record was written,
from the growth of the log between audits. The view lag_history has every audit's numbers.

examples:
  kgroups lag --lake ./lake                                  which groups lag most?
  kgroups lag --lake ./lake --group orders-etl               where, and since when?
  kgroups lag --lake ./lake --since 7d --format json"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from kgroups_spark.cli.form import GROUP, LAKE, ROWS, TOPIC, Option, moment_value, screen, write
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import say
from kgroups_spark.errors import KgroupsError
from kgroups_spark.sql.reader import Row, of_known
from kgroups_spark.words import counted, format_duration, format_utc, to_datetime

OPTIONS = (LAKE, GROUP, TOPIC, Option("--since T", "the trend from T on", moment_value), *ROWS)

_NUMBERS = "lag change records_lost=LOST behind trend"
SCREENS = {
    False: screen(f"group_id=GROUP partition_count=#PARTITIONS {_NUMBERS}"),
    True: screen(f"group_id=GROUP topic partition committed_offset* log_start_offset* log_end_offset* {_NUMBERS}"),
}
_NOW = ("lag", "records_lost", "estimated_lag_ms", "change", "since", "trend")
_OF_PARTITION = ("committed_offset", "log_start_offset", "log_end_offset", "status")
# The characters of a trend, from 0 to the largest.
BARS = "▁▂▃▄▅▆▇█"
# Points in time shown, the newest.
MOST_POINTS = 24

BY_GROUP = """
SELECT group_id, audit_id, count(*) AS partition_count, max(seen_at) AS seen_at,
  TRY_CAST(sum(CAST(lag AS DECIMAL(38, 0))) AS BIGINT) AS lag,
  TRY_CAST(sum(CAST(records_lost AS DECIMAL(38, 0))) AS BIGINT) AS records_lost,
  max(estimated_lag_ms) AS estimated_lag_ms
FROM chosen GROUP BY group_id, audit_id"""
BY_PARTITION = "SELECT * FROM chosen"
QUERY = """
WITH chosen AS (
  SELECT * FROM lag_history WHERE {chosen} AND (:since IS NULL OR seen_at >= :since)
),
asked AS ({rows})
SELECT * FROM asked ORDER BY {key}, audit_id"""
NEWEST = "SELECT max(audit_id) AS audit_id, max(seen_at) AS seen_at FROM topic_offsets"


def run(arguments: argparse.Namespace) -> int:
    reader = open_lake(arguments)
    [newest] = reader.sql(NEWEST)
    if newest["audit_id"] is None:
        raise KgroupsError(
            f"no lag is known ({reader.known_as_of()}): only an audit of a live cluster sees the ends of topics ("
            "kgroups audit --bootstrap-server HOST:PORT)"
        )
    groups = arguments.group or None
    chosen = of_known(reader, groups, arguments.topic)
    key = ("group_id", "topic", "partition") if groups else ("group_id",)
    query = QUERY.format(chosen=chosen.sql, rows=BY_PARTITION if groups else BY_GROUP, key=", ".join(key))
    since = None if arguments.since is None else to_datetime(arguments.since)
    histories: dict[tuple[object, ...], list[Row]] = {}
    for row in reader.ask(query, {**chosen.parameters, "since": since}):
        histories.setdefault(tuple(row[name] for name in key), []).append(row)
    rows = [_newest(its) for its in histories.values() if its[-1]["audit_id"] == newest["audit_id"]]
    rows.sort(key=lambda row: (row["lag"] is None, -(row["lag"] or 0)))
    of = _OF_PARTITION if groups else ["partition_count"]
    write(rows, [*key, "audit_id", "seen_at", *of, *_NOW], SCREENS[groups is not None], arguments)
    found = counted(len(rows), "partition" if groups else "group")
    say(f"{found}; the ends of topics are those of audit {newest['audit_id']}, {format_utc(newest['seen_at'])}")
    return 0


def _newest(history: Sequence[Row]) -> Row:
    """The newest row of a group or partition, with what its earlier ones show."""
    now, lags = history[-1], [row["lag"] for row in history]
    first = next((row for row in history if row["lag"] is not None), now)
    behind = now["estimated_lag_ms"]
    return now | {
        "change": None if now["lag"] is None else now["lag"] - first["lag"],
        "since": first["seen_at"],
        "behind": None if behind is None else f"~{format_duration(behind)}" if behind else "0s",
        "trend": trend(lags[-MOST_POINTS:]),
    }


def trend(lags: Sequence[int | None]) -> str:
    """One character a lag, on a scale from 0 (and less) to the largest; a blank: unknown."""
    most = max((lag for lag in lags if lag is not None), default=0)
    steps = len(BARS) - 1
    return "".join(" " if lag is None else BARS[-(-max(lag, 0) * steps // most) if most > 0 else 0] for lag in lags)
