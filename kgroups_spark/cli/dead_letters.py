"""records that share groups gave up, and records that they received again

Prints the records that share groups gave up, ever: rejected by a consumer, or delivered as often as
share.delivery.count.limit allows. No broker keeps that: a share partition forgets them as soon as its start offset is
beyond them. With a dead-letter queue (Kafka 4.4) `archiving` are those that are not known to be in it. --redeliveries
prints instead, by day, how many records were delivered again: at least so many, because the share coordinator stores no
state of records that are finished at the start offset.

examples:
  kgroups dead-letters --lake ./lake
  kgroups dead-letters --lake ./lake --group billing --since 7d --fail-if-any     exit 4 if there is one, for alerting
  kgroups dead-letters --lake ./lake --redeliveries --since 30d                     consumers that fail, by day"""

from __future__ import annotations

import argparse
from operator import itemgetter

from kgroups_spark.cli.form import (
    FAIL_IF_ANY,
    GROUP,
    LAKE,
    ROWS,
    TOPIC,
    Option,
    fail_if_any,
    moment_value,
    screen,
    write,
)
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import say
from kgroups_spark.sql.reader import all_of, between, of_groups, of_topics, require_known
from kgroups_spark.sql.views import columns_of
from kgroups_spark.words import counted, group_count, to_datetime

OPTIONS = (
    LAKE,
    GROUP,
    TOPIC,
    Option("--since T", "from T on", moment_value),
    Option("--until T", "up to T", moment_value),
    Option("--redeliveries", "records that were delivered again, by day"),
    FAIL_IF_ANY,
    *ROWS,
)
SCREEN = screen(
    "given_up_at group_id=GROUP topic partition first_offset=FROM-OFFSET last_offset=TO-OFFSET records=#RECORDS "
    "delivery_count=DELIVERED reason delivery_state=STATE queue_topic=QUEUE"
)
REDELIVERIES = screen(
    "day=DAY_(UTC) group_id=GROUP topic partition redeliveries records=#RECORDS delivery_count=MOST-DELIVERED"
)


def run(arguments: argparse.Namespace) -> int:
    reader = open_lake(arguments)
    reader.require_audit()
    require_known(reader, arguments.group)
    view, time, columns = "dead_letters", "given_up_at", SCREEN
    limits = {name: to_datetime(at) for name in ("since", "until") if (at := getattr(arguments, name)) is not None}
    if arguments.redeliveries:
        view, time, columns = "redeliveries", "day", REDELIVERIES
        limits = {name: at.replace(hour=0, minute=0, second=0, microsecond=0) for name, at in limits.items()}
    chosen = all_of(of_groups(arguments.group or None), of_topics(arguments.topic), between(time, limits))
    rows = reader.sql(f"SELECT * FROM {view} WHERE {chosen.sql}", **chosen.parameters)
    place = itemgetter("group_id", "topic_id", "partition")
    rows.sort(key=lambda row: (str(row[time] or ""), *place(row), row.get("log_offset")))
    write(rows, list(columns_of(view)), columns, arguments)
    again = f" delivered again {sum(row['redeliveries'] for row in rows):,} times" if arguments.redeliveries else ""
    records = counted(sum(row["records"] for row in rows), "record")
    found = f"{records} of {counted(group_count(rows), 'share group')}{again}"
    say(f"{found} ({reader.known_as_of()})")
    return fail_if_any(arguments, rows)
