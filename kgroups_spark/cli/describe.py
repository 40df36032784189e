"""offsets, members or state of a group, even a deleted one

Prints what kafka-consumer-groups.sh (kafka-share-groups.sh, kafka-streams-groups.sh) --describe prints, in its columns,
from the log: without a cluster, as of any moment, and for deleted groups. CONSUMER-ID, HOST and CLIENT-ID show the
owner of the partition; the log does not record who committed. LOG-END-OFFSET and LAG are known where an audit of a live
cluster saw the ends of the topics' logs; LOST is the part of the lag that the topic has deleted, WILL-RESET marks
offsets that these logs do not have. EXPIRES-AT is when the offset expires if the group stays as it is, PENDING an
offset in an open transaction. COORDINATOR, and the ASSIGNMENT-STRATEGY of a consumer group whose members name none, are
those that an audit of a live cluster saw.

examples:
  kgroups describe --lake ./lake --group orders-etl
  kgroups describe --lake ./lake --group orders-etl --as-of '2026-11-15 08:00'    what did it look like then?
  kgroups describe --lake ./lake --group orders-etl --members --verbose           who has which partitions
  kgroups describe --lake ./lake --all-groups --state --format json"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator

from kgroups_spark.cli.form import AS_OF, GROUPS, LAKE, ROWS, TYPES, Moment, Option, asked_groups, column, write
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import Column, say_lines, show, write_rows
from kgroups_spark.coordinator.releases import release
from kgroups_spark.sql.reader import (
    DEAD,
    Described,
    GroupReader,
    LakeReader,
    Row,
    Rows,
    What,
    about_waiting,
    deleted_next,
)
from kgroups_spark.words import cause_text, counted, format_time, format_utc, quoted, shell_option, shell_word

OPTIONS = (
    LAKE,
    *GROUPS,
    TYPES,
    AS_OF,
    (
        Option("--offsets", "one row a partition (default)"),
        Option("--members", "one row a member"),
        Option("--state", "one row a group"),
    ),
    Option("--verbose", "more columns, as in Kafka's tools"),
    *ROWS,
)

# Columns and their order as in 4.3.1: printOffsets, printMembers and printStates of ConsumerGroupCommand,
# ShareGroupCommand and StreamsGroupCommand. The short form of StreamsGroupCommand has only the lag, which is seldom
# known, so we use the long one. `+`: with --verbose alone; `-`: without it; `?`: if a row has a value.
_STATE = "group_id=GROUP coordinator=COORDINATOR_(ID)"
_STATE_END = "member_count=#MEMBERS expires_at pending_count=PENDING"
SCREENS: dict[tuple[What, str], str] = {
    ("offsets", "consumer"): "group_id=GROUP topic partition +leader_epoch* committed_offset=CURRENT-OFFSET "
    "log_end_offset* lag ?records_lost=LOST ?will_reset owner_member_id=CONSUMER-ID* owner_client_host=HOST "
    "owner_client_id=CLIENT-ID* expires_at pending_offsets=PENDING",
    ("offsets", "share"): "group_id=GROUP topic partition +leader_epoch committed_offset=START-OFFSET lag "
    "?records_lost=LOST",
    ("offsets", "streams"): "group_id=GROUP topic partition committed_offset=CURRENT-OFFSET leader_epoch* "
    "log_end_offset* lag=OFFSET-LAG ?records_lost=LOST ?will_reset ?owner_member_id=MEMBER ?owner_client_id=CLIENT-ID* "
    "expires_at pending_offsets=PENDING",
    ("members", "consumer"): "group_id=GROUP member_id=CONSUMER-ID ?group_instance_id client_host=HOST* client_id* "
    "partition_count=#PARTITIONS +member_epoch=CURRENT-EPOCH +current_assignment +assignment_epoch=TARGET-EPOCH "
    "+target_assignment +?upgraded",
    ("members", "share"): "group_id=GROUP member_id=CONSUMER-ID client_host=HOST* client_id* "
    "partition_count=#PARTITIONS +member_epoch current_assignment=ASSIGNMENT",
    ("members", "streams"): "group_id=GROUP +assignment_epoch=TARGET-ASSIGNMENT-EPOCH +topology_epoch member_id=MEMBER "
    "+member_protocol +member_epoch process_id=PROCESS* client_id* -tasks=ASSIGNMENTS~ +all_tasks=ASSIGNMENTS~",
    ("state", "consumer"): f"{_STATE} strategy=ASSIGNMENT-STRATEGY state +group_epoch "
    f"+assignment_epoch=TARGET-ASSIGNMENT-EPOCH {_STATE_END}",
    ("state", "share"): f"{_STATE} state +group_epoch +assignment_epoch {_STATE_END}",
    ("state", "streams"): f"{_STATE} state +group_epoch +assignment_epoch=TARGET-ASSIGNMENT-EPOCH {_STATE_END}",
}
# From this release on brokers count partitions pending revocation among a member's
# (ConsumerGroupMember.asConsumerGroupDescribeMember in 4.0.2 to 4.4.0).
COUNTS_PENDING_REVOCATION = (4.0, 3.0)

# Columns of JSON and CSV. The last, `known`, is how well the history covers the moment; null: the present state.
_WHICH = "as_of offsets_partition group_id group_type state"
COLUMNS: dict[What, list[str]] = {
    "offsets": f"{_WHICH} topic topic_id partition leader_epoch committed_offset metadata commit_timestamp log_offset "
    "log_end_offset lag records_lost will_reset owner_member_id owner_client_host owner_client_id expires_at "
    "pending_offsets known".split(),
    "members": f"{_WHICH} member_id group_instance_id client_host client_id rack_id member_epoch member_state "
    "uses_classic_protocol subscribed_topics subscribed_regex partition_count assigned_partitions assignment_epoch "
    "target_partitions assigned_tasks target_tasks topology_epoch process_id session_timeout_ms heartbeat_interval_ms "
    "known".split(),
    "state": f"{_WHICH} coordinator is_simple protocol_type protocol server_assignor strategy generation group_epoch "
    "assignment_epoch leader state_since member_count offset_count expires_at pending_count removed_at removal_cause "
    "known".split(),
}

_ELSEWHERE = "START-OFFSET and LAG of a share group are not in __consumer_offsets but in __share_group_state"
# Notes by the knowledge of that log's history (state_known_as_of); None: the log was not read.
ABOUT_SHARE_STATE = {
    None: [f"{_ELSEWHERE}, which was not read: these are the partitions that have one."],
    "before": [f"{_ELSEWHERE}, whose history begins later: these are the partitions that have one."],
    "incomplete": ["__share_group_state lost records before they were read: START-OFFSET may be missing or stale."],
    "after": ["START-OFFSET comes from the newest record of __share_group_state that was read, which is older."],
}

WILL_RESET = (
    "WILL-RESET: the topic's log does not have the offset, which is below its start, beyond its end, or negative. A "
    "consumer that resumes there is reset (auto.offset.reset)."
)
BEHIND_THE_COMMIT = (
    "LAG is negative where the audit asked for the end of the topic's log before the offset was committed."
)


def run(arguments: argparse.Namespace) -> int:
    names = asked_groups(arguments)
    reader = open_lake(arguments)
    moment = Moment.of(reader, arguments.as_of)
    what: What = "members" if arguments.members else "state" if arguments.state else "offsets"
    is_table = arguments.format == "table"
    found = set[str]()

    def groups() -> Iterator[Described]:
        asked = GroupReader(reader, moment.as_of, what, times_as_text=not is_table)
        for group in asked.groups(names):
            if arguments.type is not None and group.group_type not in arguments.type:
                continue
            found.add(group.group_id)
            yield group

    if is_table:
        for number, (rows, columns) in enumerate(_tables(reader, groups(), what, arguments)):
            if number:
                show("")
            write_rows(rows, columns, "table")
            sys.stdout.flush()  # before the next group's notes on stderr
    else:
        write(_rows(reader, groups(), what, moment.known, arguments), COLUMNS[what], (), arguments)
    first, *notes = moment.closing(counted(len(found), "group"))
    if moment.log is not None:
        unknown = "" if arguments.members else "; log ends and expiry are known for the current state only"
        first = f"{moment.log}{unknown}"
    if arguments.as_of is None:
        shown = names if arguments.type is None else sorted(found)
        notes += [*about_waiting(reader, shown), *deleted_next(reader, shown)]
    say_lines([first, *notes])
    return 0


def _rows(
    reader: LakeReader, groups: Iterable[Described], what: What, known: str | None, arguments: argparse.Namespace
) -> Iterator[Row]:
    """The rows of JSON and CSV; the notes on a group follow its rows."""
    for group in groups:
        which = {name: getattr(group, name) for name in ("offsets_partition", "group_id", "group_type", "state")}
        which |= {"as_of": format_time(group.as_of), "known": known}
        for row in rows_of(group, what, reader.last_audit["release_version"]):
            yield row | which
        say_lines(notes_on(reader, group, arguments))


def _tables(
    reader: LakeReader, groups: Iterable[Described], what: What, arguments: argparse.Namespace
) -> Iterator[tuple[Rows, tuple[Column, ...]]]:
    """A table for each group, after its notes, as Kafka prints it; for states, one for groups with the same columns."""
    states: dict[tuple[Column, ...], Rows] = {}
    release_version = reader.last_audit["release_version"]
    for group in groups:
        say_lines(notes_on(reader, group, arguments))
        rows = [row | {"state": group.state} | _as_kafka_shows(row) for row in rows_of(group, what, release_version)]
        columns = screen_of(group, what, rows, arguments.verbose)
        if what == "state":
            states.setdefault(columns, []).extend(rows)
        elif rows:
            yield rows, columns
    yield from ((rows, columns) for columns, rows in states.items())


def screen_of(group: Described, what: What, rows: Rows, verbose: bool) -> tuple[Column, ...]:
    kind = group.group_type if group.group_type in ("share", "streams") else "consumer"
    columns = []
    for each in SCREENS[what, kind].split():
        shown = column(each.lstrip("+-?"))
        is_wanted = not each.startswith("-" if verbose else "+")
        if is_wanted and ("?" not in each[:2] or any(row[shown.name] is not None for row in rows)):
            columns.append(shown)
    split = [Column("offsets_partition", "OFFSETS-PARTITION")] if group.is_split else []
    return (*columns, *split)


def rows_of(group: Described, what: What, release_version: str) -> Rows:
    """The rows with what is computed for the screen, as the brokers of that release do."""
    if what == "members":
        return _member_rows(group, release(release_version).version >= COUNTS_PENDING_REVOCATION)
    return group.rows if what == "offsets" else _state_rows(group)


def _as_kafka_shows(row: Row) -> Row:
    """An offset without a negative number, which clients read as none; a mark only where consumers are reset."""
    if "will_reset" not in row:
        return {}
    offset = row["committed_offset"]
    is_none = offset is not None and offset < 0 and row["group_type"] != "share"
    marked = {name: row[name] or None for name in ("will_reset", "records_lost")}
    return {"committed_offset": None if is_none else offset, **marked}


def _member_rows(group: Described, counts_pending_revocation: bool) -> Rows:
    rows = group.members if group.removal else group.rows
    upgraded = {
        row["member_id"]: not row["uses_classic_protocol"] for row in rows if row["uses_classic_protocol"] is not None
    }
    is_mixed = group.group_type == "consumer" and len({upgraded.get(row["member_id"]) for row in rows}) > 1
    made = []
    for row in rows:
        held, tasks = row["assigned_partitions"] or [], tasks_text(row["assigned_tasks"])
        if counts_pending_revocation:
            held = [*held, *(row["pending_revocation_partitions"] or ())]
        target = None if group.group_type == "classic" else assignment_text(row["target_partitions"] or [])
        made.append(
            row
            | {
                "partition_count": len(held),
                "current_assignment": assignment_text(held),
                "target_assignment": target,
                "upgraded": upgraded.get(row["member_id"]) if is_mixed else None,
                "tasks": " ".join(tasks) or None,
                "all_tasks": " ".join(tasks + tasks_text(row["target_tasks"], "TARGET-")) or None,
                "member_protocol": "classic" if row["uses_classic_protocol"] else "streams",
            }
        )
    return made


def _state_rows(group: Described) -> Rows:
    removal = group.removal or {}
    last = (
        {
            "group_id": group.group_id,
            "member_count": 0,
            "offset_count": sum(row["committed_offset"] is not None for row in group.rows),
            "pending_count": sum(len(row["pending_offsets"] or ()) for row in group.rows),
        }
        if group.state == DEAD and (group.removal or not group.rows)
        else group.rows[0]
    )
    row: Row = dict.fromkeys(COLUMNS["state"]) | last
    strategy = row["protocol"] or row["server_assignor"] or _first_assignor(row.get("assignors"))
    shown = {"strategy": strategy, "offsets_partition": group.offsets_partition}
    return [row | shown | {"removed_at": removal.get("removed_at"), "removal_cause": removal.get("cause")}]


def _first_assignor(assignors: str | None) -> str | None:
    """The first of group.consumer.assignors, which is a name or a class; None: a class of somebody else."""
    package, _, name = (assignors or "").partition(",")[0].strip().rpartition(".")
    built_in = {"UniformAssignor": "uniform", "RangeAssignor": "range"}
    return built_in.get(name) if package else name or None


def assignment_text(partitions: Iterable[Row]) -> str | None:
    """`orders:0,1;payments:2`, as Kafka's tools print it; None: nothing is assigned."""
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for held in partitions:
        by_topic[held.get("topic") or f"topic id {held.get('topic_id')}"].append(held["partition"])
    texts = (f"{topic}:{','.join(map(str, sorted(numbers)))}" for topic, numbers in by_topic.items())
    return ";".join(sorted(texts)) or None


def tasks_text(tasks: Iterable[Row] | None, prefix: str = "") -> list[str]:
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


def notes_on(reader: LakeReader, group: Described, arguments: argparse.Namespace) -> list[str]:
    """Notes on a group for people, in addition to its rows."""
    kind = "consumer" if group.group_type in (None, "classic") else group.group_type
    name = f"{kind.capitalize()} group {quoted(group.group_id)}"
    lines = []
    if group.is_split:
        where = {
            None: "",
            True: ", where its name does not belong: clients do not find it there",
            False: ", where its name belongs",
        }[group.is_misplaced]
        lines.append(f"{name} in offsets partition {group.offsets_partition}{where}:")
    if group.state == DEAD:
        lines += _about_dead(reader, name, group, arguments)
    elif group.state == "Empty":
        lines.append(f"{name} has no active members.")
    elif group.state not in ("Stable", "NotReady"):
        lines.append(f"Warning: {name} is rebalancing ({group.state}).")
    if group.group_type == "share" and not (arguments.members or arguments.state):
        lines += ABOUT_SHARE_STATE.get(group.share_known, [])
    if any(row.get("will_reset") for row in group.rows):
        lines.append(WILL_RESET)
    if any((row.get("lag") or 0) < 0 and row["will_reset"] is None for row in group.rows):
        lines.append(BEHIND_THE_COMMIT)
    return lines


def _about_dead(reader: LakeReader, name: str, group: Described, arguments: argparse.Namespace) -> list[str]:
    removal = group.removal
    if removal is None:
        if group.offsets_partition is not None:
            return [f"{name} does not exist (Dead), but has offsets: no client can fetch them, and they never expire."]
        when = "" if arguments.as_of is None else f" as of {format_utc(arguments.as_of)}"
        return [f"{name} does not exist{when} (Dead) and is nowhere in the log read up to then."]
    if removal["removed_at"] is None:
        lines = [
            f"{name} does not exist (Dead). When and why it was removed is unknown: its tombstones were compacted away "
            "before they were read."
        ]
    else:
        why = cause_text(removal["cause"]) or "the cause is unknown, as the lake has no events of that time"
        lines = [f"{name} does not exist (Dead): removed {format_utc(removal['removed_at'])}, {why}."]
    if group.members and not arguments.members:
        lines.append(f"Last members, until {format_utc(removal['members_as_of'])}:")
        lines += [
            f"  {member['member_id']} (client id {member['client_id']}, host {member['client_host']})"
            for member in group.members
        ]
    if not group.rows:
        return [*lines, "History has no committed offsets of it."]
    option = shell_option("--group", group.group_id)
    moment = format_time(removal["offsets_as_of"])
    command = f"kgroups export-offsets --lake {shell_word(reader.location)} {option} --as-of {moment}"
    lines += ["To restore its last offsets:", f"  {command} --output offsets.csv"]
    if not arguments.state:
        what = "its last members" if arguments.members else "what it had"
        lines.append(f"Below: {what}, before the removal.")
    return lines
