"""which classic groups can move to KIP-848's protocol, and exactly-once styles

Prints one row for each classic group: CONVERTS is online (consumers of the new protocol can join while it has members,
one after another), when empty (stop all members first; the offsets stay) or no, and WHY-NOT says why. AT-RISK are
offsets committed more than the retention ago: a consumer group loses them as soon as it is empty, a classic group only
a retention after that. The rules are those of Kafka 4.0 and newer; the brokers' policy and size limit are known if an
audit asked a live cluster. stderr has a checklist of Kafka's own commands. --exactly-once prints one row for each group
with offsets committed in transactions instead: whether its producers have an id for each partition or for each thread
(KIP-447), and their longest transaction timeout, for which its offsets can be pending.

examples:
  kgroups migration --lake ./lake
  kgroups migration --lake ./lake --exactly-once --format json"""

from __future__ import annotations

import argparse

from kgroups_spark.cli.form import LAKE, ROWS, Option, screen, write
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import say_lines
from kgroups_spark.coordinator.transaction_shard import timeout_text
from kgroups_spark.sql.views import columns_of
from kgroups_spark.words import counted, first_of, shell_word

OPTIONS = (LAKE, Option("--exactly-once", "groups with offsets in transactions, instead of classic groups"), *ROWS)
SCREEN = screen(
    "group_id=GROUP state member_count=#MEMBERS* protocol=ASSIGNOR* converts why=WHY-NOT~ offsets_at_risk=AT-RISK "
    "of_clients=CLIENTS~*"
)
EXACTLY_ONCE = "SELECT * FROM eos_style LEFT JOIN transaction_limits USING (group_id) ORDER BY group_id"
EXACTLY_ONCE_SCREEN = screen(
    "group_id=GROUP style ids=#IDS partitions=#PARTITIONS longest=LONGEST-TIMEOUT transactional_id*"
)
REASONS = {
    "protocol_type": "its protocol type is not consumer",
    "size": "more members than group.consumer.max.size",
    "no_members": "it has no members",
    "policy": "group.consumer.migration.policy forbids it",
    "unreadable_subscription": "a subscription or an assignment cannot be read",
    "user_data": "user data in an assignment (a custom assignor, as Kafka Streams has)",
}


def run(arguments: argparse.Namespace) -> int:
    reader = open_lake(arguments)
    if arguments.exactly_once:
        found = reader.sql(EXACTLY_ONCE)
        names = [*columns_of("eos_style"), *(name for name in columns_of("transaction_limits") if name != "group_id")]
        shown = [row | {"longest": timeout_text(row["longest_timeout_ms"])} for row in found]
        write(shown, names, EXACTLY_ONCE_SCREEN, arguments)
        say_lines([f"{counted(len(found), 'group')} with offsets in transactions ({reader.known_as_of()})"])
        return 0
    found = reader.sql("SELECT * FROM migration ORDER BY group_id, offsets_partition")
    shown = [
        row | {"why": REASONS.get(row["reason"]), "of_clients": first_of(row["clients"] or [], 3) or None}
        for row in found
    ]
    write(shown, columns_of("migration"), SCREEN, arguments)
    online, empty = (sum(row["converts"] == how for row in found) for how in ("online", "when empty"))
    counts = f"{counted(len(found), 'classic group')}: {online:,} online, {empty:,} when empty, "
    say_lines([f"{counts}{len(found) - online - empty:,} not ({reader.known_as_of()})", *checklist(reader.location)])
    return 0


def checklist(lake: str) -> list[str]:
    """The way of a group, in Kafka's own commands."""
    server = "--bootstrap-server HOST:PORT"
    return [
        "To move a group:",
        "1. Every broker has 4.0 or newer, and group.version is 1 or higher:",
        f"     kafka-features.sh {server} describe",
        "2. group.consumer.migration.policy in server.properties is bidirectional (the default) or upgrade:",
        f"     kafka-configs.sh {server} --describe --all --entity-type brokers --entity-name BROKER",
        "3. Keep a copy of its offsets:",
        f"     kgroups export-offsets --lake {shell_word(lake)} --group GROUP --output offsets.csv",
        "4. Restart its consumers with group.protocol=consumer, without partition.assignment.strategy,",
        "   session.timeout.ms and heartbeat.interval.ms: online one after another; when empty, stop all first.",
        "5. Its type is Consumer, its state Stable, and the lag falls:",
        f"     kafka-groups.sh {server} --list --group-type consumer",
        f"     kafka-consumer-groups.sh {server} --describe --group GROUP --state",
        "6. To go back (policy bidirectional or downgrade): restart them with group.protocol=classic.",
    ]
