"""`kgroups describe`: the output of kafka-consumer-groups.sh --describe from the log alone, now or as of a moment, also
for groups that no longer exist."""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kgroups_spark.commands.moments import known_times
from kgroups_spark.counts import counted
from kgroups_spark.escapes import shell_word
from kgroups_spark.reading.gone_groups import REMOVAL_CAUSES
from kgroups_spark.reading.group_description import (
    DEAD,
    OFFSET_ROW,
    Description,
    OffsetSums,
    Row,
    What,
    describe_groups,
)
from kgroups_spark.reading.group_options import add_group_options, asked_groups
from kgroups_spark.reading.open_lake import open_lake
from kgroups_spark.reading.reader import LakeReader, Rows
from kgroups_spark.terminal.display import list_items, words
from kgroups_spark.terminal.options import add_engine_option, add_format_option, add_lake_option, time_value
from kgroups_spark.terminal.output import Column, say_lines, show, write_rows
from kgroups_spark.times import format_time, format_time_for_people, to_datetime

NAME = "describe"
SUMMARY = "offsets, members or state of a group, even a deleted one"
DESCRIPTION = """\
Prints what kafka-consumer-groups.sh (kafka-share-groups.sh, kafka-streams-groups.sh) --describe prints, in its columns,
from the log: without a cluster, as of any moment, and for deleted groups. CONSUMER-ID, HOST and CLIENT-ID show the
owner of the partition; the log does not record who committed. LOG-END-OFFSET and LAG are known where an audit of a live
cluster saw the ends of the topics' logs. EXPIRES-AT is when the offset expires if the group stays as it is, PENDING an
offset in an open transaction. The log does not name the coordinator."""
EXAMPLES = """\
examples:
  kgroups describe --lake ./lake --group orders-etl
  kgroups describe --lake ./lake --group orders-etl --as-of '2026-11-15 08:00'    what did it look like then?
  kgroups describe --lake ./lake --group orders-etl --members --verbose           who has which partitions
  kgroups describe --lake ./lake --all-groups --state --format json"""

# Columns for JSON and CSV: of all rows, then of --offsets, --members and --state. The last, `known`, says how well the
# history knows the moment (moments.KnownTimes.known); null: no moment was asked for.
_WHICH = ("as_of", "offsets_partition", "group_id", "group_type", "state")
OFFSET_COLUMNS = (*_WHICH, *OFFSET_ROW, "known")
MEMBER_COLUMNS = (
    *_WHICH,
    "member_id",
    "group_instance_id",
    "client_host",
    "client_id",
    "rack_id",
    "member_epoch",
    "member_state",
    "uses_classic_protocol",
    "subscribed_topics",
    "subscribed_regex",
    "partition_count",
    "assigned_partitions",
    "assignment_epoch",
    "target_partitions",
    "assigned_tasks",
    "target_tasks",
    "topology_epoch",
    "process_id",
    "known",
)
STATE_COLUMNS = (
    *_WHICH,
    "is_simple",
    "protocol_type",
    "protocol",
    "server_assignor",
    "generation",
    "group_epoch",
    "assignment_epoch",
    "leader",
    "state_since",
    "member_count",
    "offset_count",
    "expires_at",
    "pending_count",
    "removed_at",
    "removal_cause",
    "known",
)


_ELSEWHERE = "START-OFFSET and LAG of a share group are not in __consumer_offsets but in __share_group_state"
# Notes by what is known of that log's history (state_known_as_of); None: it was not read.
ABOUT_SHARE_STATE = {
    None: [f"{_ELSEWHERE}, which was not read: these are the partitions that have one."],
    "before": [f"{_ELSEWHERE}, whose history begins later: these are the partitions that have one."],
    "incomplete": ["__share_group_state lost records before they were read: START-OFFSET may be missing or stale."],
    "after": ["START-OFFSET comes from the newest record of __share_group_state that was read, which is older."],
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `kgroups describe`."""
    add_lake_option(parser)
    add_group_options(parser)
    parser.add_argument("--as-of", type=time_value, metavar="T", help="the log up to T, nothing after it")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--offsets", action="store_true", help="one row a partition (default)")
    what.add_argument("--members", action="store_true", help="one row a member")
    what.add_argument("--state", action="store_true", help="one row a group")
    parser.add_argument("--verbose", action="store_true", help="more columns, as in Kafka's tools")
    add_format_option(parser)
    add_engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the groups."""
    groups = asked_groups(arguments)
    reader = open_lake(arguments)
    reader.require_audit()
    as_of = None if arguments.as_of is None else to_datetime(arguments.as_of)
    what = _what(arguments)
    times = None if as_of is None else known_times(reader)
    known = None if times is None or as_of is None else times.known(as_of)
    is_table = arguments.format == "table"
    descriptions = Counted(describe_groups(reader, groups, as_of, what, times_as_text=not is_table))
    if is_table:
        _print_tables(arguments, reader, descriptions)
    else:
        _, names = _KINDS[what]
        rows = _rows_of(arguments, reader, descriptions, known)
        write_rows(rows, [Column(name) for name in names], arguments.format)
    if times is None or as_of is None:
        say_lines([f"{counted(len(descriptions.groups), 'group')} ({reader.known_as_of()})"])
    else:
        unknown = "" if arguments.members else "; log ends and expiry are known for the current state only"
        say_lines([*(f"{when}{unknown}" for when in times.closing(as_of)), *times.notes(as_of)])
    return 0


class Counted:
    """Descriptions one after the other, and the names of the groups so far."""

    def __init__(self, descriptions: Iterable[Description]) -> None:
        self._descriptions = descriptions
        self.groups: set[str] = set()

    def __iter__(self) -> Iterator[Description]:
        for description in self._descriptions:
            self.groups.add(description.group_id)
            yield description


def _rows_of(
    arguments: argparse.Namespace, reader: LakeReader, descriptions: Iterable[Description], known: str | None
) -> Iterator[dict[str, Any]]:
    """The rows of JSON and CSV; the notes on a group follow its rows."""
    rows_of, _ = _KINDS[_what(arguments)]
    for description in descriptions:
        for row in rows_of(description):
            row["known"] = known
            yield row
        say_lines(_about(reader, description, arguments))


def _what(arguments: argparse.Namespace) -> What:
    return "members" if arguments.members else "state" if arguments.state else "offsets"


def _print_tables(arguments: argparse.Namespace, reader: LakeReader, descriptions: Iterable[Description]) -> None:
    """A table a group, as Kafka prints them; for states, one for all groups with the same columns. The notes on a group
    precede its table."""
    rows_of, _ = _KINDS[_what(arguments)]
    states: dict[tuple[Column, ...], list[dict[str, Any]]] = {}
    is_first = True
    for description in descriptions:
        say_lines(_about(reader, description, arguments))
        rows = rows_of(description)
        if not rows:
            continue
        columns = _columns(_what(arguments), description.group_type, rows, arguments.verbose)
        if description.is_split:
            columns = (*columns, Column("offsets_partition", "OFFSETS-PARTITION"))
        if arguments.state:
            states.setdefault(columns, []).extend(rows)
        else:
            _print_table(rows, columns, is_first=is_first)
            is_first = False
    for columns, rows in states.items():
        _print_table(rows, columns, is_first=is_first)
        is_first = False


def _print_table(rows: list[dict[str, Any]], columns: tuple[Column, ...], *, is_first: bool) -> None:
    if not is_first:
        show("")
    write_rows(rows, columns, "table")
    sys.stdout.flush()  # the next group's notes follow it


def offset_rows(description: Description) -> list[dict[str, Any]]:
    """A row a partition: the columns of `lag`, the owner, when the offset expires, the pending offset."""
    which = _which(description)
    return [which | row for row in description.offsets]


def member_rows(description: Description) -> list[dict[str, Any]]:
    """A row a member: the columns of `group_members`, and those that a table shows."""
    group = description.group or {}
    rows = []
    for member in sorted(description.members, key=lambda row: str(row["member_id"])):
        held, target = member["assigned_partitions"] or [], member["target_partitions"] or []
        tasks = tasks_text(member["assigned_tasks"])
        rows.append(
            member
            | _which(description)
            | {
                "partition_count": len(held),
                "assignment_epoch": group.get("assignment_epoch"),
                "current_assignment": assignment_text(held),
                "target_assignment": None if group.get("group_type") == "classic" else assignment_text(target),
                "upgraded": None if member["uses_classic_protocol"] is None else not member["uses_classic_protocol"],
                "tasks": " ".join(tasks) or None,
                "all_tasks": " ".join(tasks + tasks_text(member["target_tasks"], "TARGET-")) or None,
                "member_protocol": "classic" if member["uses_classic_protocol"] else "streams",
            }
        )
    return rows


def state_rows(description: Description) -> list[dict[str, Any]]:
    """One row: the columns of `groups`, the first moment at which an offset expires, the number of pending offsets."""
    group: dict[str, Any] = description.group or {}
    assignors = Counter(member["server_assignor"] for member in description.members if member["server_assignor"])
    removal = description.removal
    sums = description.sums or _sums(description.offsets)
    # KIP-848's coordinator chooses the assignor that most members ask for. If none asks, it is the broker's, which is
    # not in the log.
    assignor = assignors.most_common(1)[0][0] if assignors and group.get("group_type") == "consumer" else None
    row = dict.fromkeys(STATE_COLUMNS) | {name: group[name] for name in STATE_COLUMNS if name in group}
    return [
        row
        | _which(description)
        | {
            "server_assignor": assignor,
            "strategy": group.get("protocol") or assignor,
            "coordinator": None,
            "member_count": group.get("member_count", 0),
            **sums._asdict(),
            "removed_at": removal and removal.removed_at,
            "removal_cause": removal and removal.cause,
        }
    ]


def _sums(offsets: Iterable[dict[str, Any]]) -> OffsetSums:
    """The same from the rows of a deleted group."""
    rows = list(offsets)
    return OffsetSums(
        sum(row["committed_offset"] is not None for row in rows),
        min((row["expires_at"] for row in rows if row["expires_at"] is not None), default=None),
        sum(len(row["pending_offsets"] or ()) for row in rows),
    )


def _which(description: Description) -> dict[str, Any]:
    return {
        "as_of": format_time(description.as_of),
        "offsets_partition": description.offsets_partition,
        "group_id": description.group_id,
        "group_type": description.group_type,
        "state": description.state,
    }


# The rows of each kind, and the names of their columns.
_KINDS: dict[What, tuple[Callable[[Description], Rows], Sequence[str]]] = {
    "offsets": (offset_rows, OFFSET_COLUMNS),
    "members": (member_rows, MEMBER_COLUMNS),
    "state": (state_rows, STATE_COLUMNS),
}


def _always(rows: Sequence[Row], verbose: bool) -> bool:
    return True


def _verbose(rows: Sequence[Row], verbose: bool) -> bool:
    return verbose


def _short(rows: Sequence[Row], verbose: bool) -> bool:
    return not verbose


def _has_static_members(rows: Sequence[Row], verbose: bool) -> bool:
    return any(row["group_instance_id"] for row in rows)


def _is_mixed(rows: Sequence[Row], verbose: bool) -> bool:
    """Whether the group has members of both protocols."""
    return verbose and len({row["upgraded"] for row in rows}) > 1


class _Shown(NamedTuple):
    """A column of a table on the screen, the types of groups that have it, and when they have it."""

    column: Column
    group_types: tuple[str, ...]
    when: Callable[[Sequence[Row], bool], bool] = _always


_CONSUMER, _SHARE, _STREAMS = ("classic", "consumer"), ("share",), ("streams",)
_ALL = (*_CONSUMER, *_SHARE, *_STREAMS)
_GROUP = _Shown(Column("group_id", "GROUP"), _ALL)

# Columns and their order as in 4.3.1: printOffsets, printMembers and printStates of ConsumerGroupCommand,
# ShareGroupCommand and StreamsGroupCommand. Its short form has only the lag, which is seldom known, so we use the long
# one.
_SHOWN: dict[What, tuple[_Shown, ...]] = {
    "offsets": (
        _GROUP,
        _Shown(Column("topic", "TOPIC"), _ALL),
        _Shown(Column("partition", "PARTITION"), _ALL),
        _Shown(Column("leader_epoch", "LEADER-EPOCH"), (*_CONSUMER, *_SHARE), _verbose),
        _Shown(Column("committed_offset", "START-OFFSET"), _SHARE),
        _Shown(Column("committed_offset", "CURRENT-OFFSET"), (*_CONSUMER, *_STREAMS)),
        _Shown(Column("leader_epoch", "LEADER-EPOCH"), _STREAMS),
        _Shown(Column("log_end_offset", "LOG-END-OFFSET"), (*_CONSUMER, *_STREAMS)),
        _Shown(Column("lag", "LAG"), (*_CONSUMER, *_SHARE)),
        _Shown(Column("lag", "OFFSET-LAG"), _STREAMS),
        _Shown(Column("owner_member_id", "CONSUMER-ID"), _CONSUMER),
        _Shown(Column("owner_client_host", "HOST"), _CONSUMER),
        _Shown(Column("owner_client_id", "CLIENT-ID"), _CONSUMER),
        _Shown(Column("expires_at", "EXPIRES-AT (UTC)"), (*_CONSUMER, *_STREAMS)),
        _Shown(Column("pending_offsets", "PENDING"), (*_CONSUMER, *_STREAMS)),
    ),
    "members": (
        _GROUP,
        _Shown(Column("assignment_epoch", "TARGET-ASSIGNMENT-EPOCH"), _STREAMS, _verbose),
        _Shown(Column("topology_epoch", "TOPOLOGY-EPOCH"), _STREAMS, _verbose),
        _Shown(Column("member_id", "CONSUMER-ID"), (*_CONSUMER, *_SHARE)),
        _Shown(Column("member_id", "MEMBER"), _STREAMS),
        _Shown(Column("group_instance_id", "GROUP-INSTANCE-ID"), _CONSUMER, _has_static_members),
        _Shown(Column("member_protocol", "MEMBER-PROTOCOL"), _STREAMS, _verbose),
        _Shown(Column("member_epoch", "MEMBER-EPOCH"), _STREAMS, _verbose),
        _Shown(Column("process_id", "PROCESS"), _STREAMS),
        _Shown(Column("client_host", "HOST"), (*_CONSUMER, *_SHARE)),
        _Shown(Column("client_id", "CLIENT-ID"), _ALL),
        _Shown(Column("partition_count", "#PARTITIONS"), (*_CONSUMER, *_SHARE)),
        _Shown(Column("member_epoch", "MEMBER-EPOCH"), _SHARE, _verbose),
        _Shown(Column("current_assignment", "ASSIGNMENT", list_items), _SHARE),
        _Shown(Column("tasks", "ASSIGNMENTS", words), _STREAMS, _short),
        _Shown(Column("all_tasks", "ASSIGNMENTS", words), _STREAMS, _verbose),
        _Shown(Column("member_epoch", "CURRENT-EPOCH"), _CONSUMER, _verbose),
        _Shown(Column("current_assignment", "CURRENT-ASSIGNMENT", list_items), _CONSUMER, _verbose),
        _Shown(Column("assignment_epoch", "TARGET-EPOCH"), _CONSUMER, _verbose),
        _Shown(Column("target_assignment", "TARGET-ASSIGNMENT", list_items), _CONSUMER, _verbose),
        _Shown(Column("upgraded", "UPGRADED"), ("consumer",), _is_mixed),
    ),
    "state": (
        _GROUP,
        _Shown(Column("coordinator", "COORDINATOR (ID)"), _ALL),
        _Shown(Column("strategy", "ASSIGNMENT-STRATEGY"), _CONSUMER),
        _Shown(Column("state", "STATE"), _ALL),
        _Shown(Column("group_epoch", "GROUP-EPOCH"), _ALL, _verbose),
        _Shown(Column("assignment_epoch", "TARGET-ASSIGNMENT-EPOCH"), (*_CONSUMER, *_STREAMS), _verbose),
        _Shown(Column("assignment_epoch", "ASSIGNMENT-EPOCH"), _SHARE, _verbose),
        _Shown(Column("member_count", "#MEMBERS"), _ALL),
        _Shown(Column("expires_at", "EXPIRES-AT (UTC)"), _ALL),
        _Shown(Column("pending_count", "PENDING"), _ALL),
    ),
}


def _columns(what: What, group_type: str | None, rows: Sequence[Row], verbose: bool) -> tuple[Column, ...]:
    """The columns of a table of such groups; None: of a group that is gone."""
    its = group_type or "classic"
    return tuple(each.column for each in _SHOWN[what] if its in each.group_types and each.when(rows, verbose))


def assignment_text(partitions: Iterable[dict[str, Any]]) -> str | None:
    """`orders:0,1;payments:2`, as Kafka's tools print it; None: nothing assigned."""
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for held in partitions:
        by_topic[held.get("topic") or f"topic id {held.get('topic_id')}"].append(held["partition"])
    texts = (f"{topic}:{','.join(map(str, sorted(numbers)))}" for topic, numbers in by_topic.items())
    return ";".join(sorted(texts)) or None


def tasks_text(tasks: Iterable[dict[str, Any]] | None, prefix: str = "") -> list[str]:
    """`ACTIVE: 0:[0,2];`, as Kafka's tool prints them, by role."""
    by_role: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for task in tasks or ():
        by_role[task["role"]][task["subtopology_id"]].append(task["partition"])
    return [
        f"{prefix}{role.upper()}: "
        + " ".join(
            f"{name}:[{','.join(map(str, sorted(numbers)))}];" for name, numbers in sorted(by_role[role].items())
        )
        for role in ("active", "standby", "warmup")
        if role in by_role
    ]


def _about(reader: LakeReader, description: Description, arguments: argparse.Namespace) -> list[str]:
    """Notes for people on a group, besides its rows."""
    name = f"{(description.group_type or 'consumer').capitalize()} group {description.group_id!r}"
    if description.group_type in (None, "classic"):
        name = f"Consumer group {description.group_id!r}"
    lines = []
    if description.is_split:
        lines.append(f"{name} in offsets partition {description.offsets_partition}{_misplaced(description)}:")
    if description.state == DEAD:
        lines += _about_dead(reader, name, description, arguments)
    elif description.state == "Empty":
        lines.append(f"{name} has no active members.")
    elif description.state not in ("Stable", "NotReady"):
        lines.append(f"Warning: {name} is rebalancing ({description.state}).")
    if description.group_type == "share" and not (arguments.members or arguments.state):
        lines += ABOUT_SHARE_STATE.get(description.share_known, [])
    return lines


def _misplaced(description: Description) -> str:
    is_misplaced = (description.group or {}).get("is_misplaced")
    if is_misplaced is None:
        return ""
    return (
        ", where its name does not belong: clients do not find it there" if is_misplaced else ", where its name belongs"
    )


def _about_dead(reader: LakeReader, name: str, description: Description, arguments: argparse.Namespace) -> list[str]:
    removal = description.removal
    if removal is None:
        if description.offsets_partition is not None:
            return [f"{name} does not exist (Dead), but has offsets: no client can fetch them, and they never expire."]
        when = "" if arguments.as_of is None else f" as of {format_time_for_people(arguments.as_of)} UTC"
        return [f"{name} does not exist{when} (Dead) and is nowhere in the log read up to then."]
    if removal.removed_at is None:
        lines = [
            f"{name} does not exist (Dead). When and why it was removed is unknown: its tombstones were compacted away "
            "before they were read."
        ]
    else:
        why = REMOVAL_CAUSES.get(removal.cause or "", "the cause is unknown, as the lake has no events of that time")
        lines = [f"{name} does not exist (Dead): removed {format_time_for_people(removal.removed_at)} UTC, {why}."]
    if description.members and removal.members_as_of is not None and not arguments.members:
        lines.append(f"Last members, until {format_time_for_people(removal.members_as_of)} UTC:")
        lines += [
            f"  {member['member_id']} (client id {member['client_id']}, host {member['client_host']})"
            for member in sorted(description.members, key=lambda row: str(row["member_id"]))
        ]
    if removal.offsets_as_of is None or not description.offsets:
        return [*lines, "History has no committed offsets of it."]
    moment = format_time(removal.offsets_as_of)
    group = shell_word(description.group_id)
    command = f"kgroups export-offsets --lake {shell_word(reader.location)} --group {group} --as-of {moment}"
    lines += [f"To restore its last offsets: {command} --output offsets.csv"]
    if not arguments.state:
        what = "its last members" if arguments.members else "what it had"
        lines.append(f"Below: {what}, before the removal.")
    return lines
