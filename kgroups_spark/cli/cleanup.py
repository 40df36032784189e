"""groups and offsets that nobody uses, and Kafka's commands that delete them

Prints groups without members that nobody has used for --idle: no member, no commit, no state of a share group. Also
topics to which no member of a group subscribes any more, but of which the group has offsets; the last commit is as old.
Each row has Kafka's command that deletes it. Nothing is run. A group whose consumers only fetch offsets looks unused,
too, and the audit does not know what came after it: look at the group before you delete it.

examples:
  kgroups cleanup --lake ./lake --idle 30d
  kgroups cleanup --lake ./lake --idle 90d --format csv > unused.csv
  kgroups cleanup --lake ./lake --idle 30d --format json | jq -r .command > delete.sh    read it first"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from kgroups_spark.cli.form import FAIL_IF_ANY, LAKE, ROWS, Option, duration_value, fail_if_any, screen, write
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import say_lines
from kgroups_spark.sql.reader import LakeReader, Row
from kgroups_spark.words import DAY_MS, counted, format_duration, shell_option, shell_word, to_datetime

OPTIONS = (
    LAKE,
    Option(
        "--idle D",
        "what nobody has used for this duration before the audit (default: 30d)",
        duration_value,
        30 * DAY_MS,
    ),
    FAIL_IF_ANY,
    *ROWS,
)
SCREEN = screen("group_id=GROUP group_type=TYPE* state* topic idle_since offset_count=#OFFSETS expires_at")
COLUMNS = ["offsets_partition", "group_id", "group_type", "state", "topic", "idle_since", "offset_count", "expires_at"]

UNUSED = """
SELECT offsets_partition, group_id, group_type, state, CAST(NULL AS STRING) AS topic, idle_since, offset_count,
  expires_at
FROM unused_groups WHERE idle_since <= :latest
UNION ALL
SELECT offsets_partition, group_id, group_type, state, topic, last_commit_at, offset_count, kept_until
FROM topics_no_longer_consumed WHERE last_commit_at <= :latest"""


def run(arguments: argparse.Namespace) -> int:
    reader = open_lake(arguments)
    latest = to_datetime(reader.as_of_ms - arguments.idle)
    rows = [row | {"command": command(row)} for row in reader.sql(UNUSED, latest=latest)]
    rows.sort(key=lambda row: (row["topic"] or "", row["idle_since"], row["group_id"]))
    write(rows, [*COLUMNS, "command"], SCREEN, arguments)
    if arguments.format == "table":
        say_lines(f"  {row['command']}" for row in rows)
    say_lines(_closing(reader, rows, arguments.idle))
    return fail_if_any(arguments, rows)


def command(row: Row) -> str:
    """Kafka's command that deletes the group, or its offsets of the topic."""
    kind = row["group_type"] if row["group_type"] in ("share", "streams") else "consumer"
    tool = f"kafka-{kind}-groups.sh --bootstrap-server HOST:PORT"
    group = shell_option("--group", row["group_id"])
    if row["topic"] is None:
        return f"{tool} --delete {group}"
    topic = "--input-topic" if kind == "streams" else "--topic"
    return f"{tool} --delete-offsets {group} {topic} {shell_word(row['topic'])}"


def _closing(reader: LakeReader, rows: list[Row], idle_ms: int) -> Iterator[str]:
    topics = sum(row["topic"] is not None for row in rows)
    groups, old = counted(len(rows) - topics, "unused group"), format_duration(idle_ms)
    yield f"{groups} and {counted(topics, 'topic')} no longer consumed, for {old} or longer ({reader.known_as_of()})"
    if rows:
        yield "Nothing was deleted. Kafka refuses to delete a group that has members again."
