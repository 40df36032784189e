"""what happened to a group, and why

Prints what happened to the groups, the newest last: members, states, offsets that were rewound, skipped or removed,
share partitions that began, were reset or deleted, transactions that the coordinator aborted, groups that were removed,
each with its cause as far as the log shows it. A table shows a rebalance in one line: who joined, who left, the new
state and generation; --verbose prints a line for each event, as JSON and CSV do. Ordinary commits are left out;
--commits prints every commit instead, with its outcome and the owner of the partition (the log does not record who
committed), --rebalances every rebalance, with its cause, its length and the member that was the last to follow, and
--handovers every partition that changed its owner, with the time since the group's last commit before: the next owner
reads again what the previous one processed in that time.

examples:
  kgroups history --lake ./lake --group invoice-export --since 2026-11-10T22:00 --until 2026-11-11T06:00
                                                              what happened last night?
  kgroups history --lake ./lake --group orders-etl --topic orders:0,1     only what happened to these offsets
  kgroups history --lake ./lake --all-groups --event offset_rewound,offset_skipped --since 2026-11-15 --fail-if-any
  kgroups history --lake ./lake --all-groups --since 2d       the last two days before the audit
  kgroups history --lake ./lake --group orders-etl --commits --since 2026-11-16T06:00
  kgroups history --lake ./lake --group orders-etl --rebalances           who kept the others waiting?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from kgroups_spark.cli.describe import assignment_text, tasks_text
from kgroups_spark.cli.form import (
    FAIL_IF_ANY,
    GROUP,
    LAKE,
    ROWS,
    TOPIC,
    Moment,
    Option,
    asked_groups,
    fail_if_any,
    moment_value,
    names_value,
    positive_count_value,
    reduced_history,
    screen,
    write,
)
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import Column, say, say_lines
from kgroups_spark.errors import UsageError
from kgroups_spark.sql.reader import (
    EVERYTHING,
    LakeReader,
    Rows,
    SqlCondition,
    about_waiting,
    all_of,
    between,
    deleted_next,
    of_groups,
    of_known,
)
from kgroups_spark.sql.views import columns_of
from kgroups_spark.words import (
    EVENTS,
    cause_text,
    counted,
    first_of,
    format_duration,
    format_time_for_people,
    to_datetime,
)

DEFAULT_LIMIT = 100
LONGEST_METADATA = 100  # characters in a table
EVENT_SCREEN = screen(
    "time=TIME_(UTC) group_id=GROUP what=EVENT~ subject=MEMBER/TOPIC-PARTITION~ before after why=CAUSE~"
)
COMMIT_SCREEN = screen(
    "time=TIME_(UTC) group_id=GROUP topic partition before after=OFFSET outcome effect=TOOK-EFFECT* "
    "owner_member_id=ASSIGNED-TO* owner_client_host=HOST owner_client_id=CLIENT-ID* metadata_shown=METADATA*"
)

REBALANCE_SCREEN = screen(
    "time=TIME_(UTC) group_id=GROUP number=GENERATION/EPOCH why=CAUSE~ outcome lasted "
    "slowest_member_id=SLOWEST-MEMBER members_before=#BEFORE members_after=#AFTER joined~ gone=LEFT~"
)
HANDOVER_SCREEN = screen(
    "time=TIME_(UTC) group_id=GROUP topic partition from_member_id=FROM to_member_id=TO committed_offset=OFFSET "
    "last_commit_timestamp=LAST-COMMIT_(UTC) since=SINCE-LAST-COMMIT"
)

# The events that a table shows in one line if they are of one record with a rebalance.
REBALANCE = ("state_changed", "generation_changed", "member_joined", "member_left", "assignment_changed")
_NAMED_MEMBERS = 3

OPTIONS = (
    LAKE,
    GROUP,
    Option("--all-groups", "every group in the log, even a deleted one"),
    TOPIC,
    Option("--since T", "from T on", moment_value),
    Option("--until T", "up to T", moment_value),
    Option("--limit N", f"the newest N at most (default: {DEFAULT_LIMIT})", positive_count_value, DEFAULT_LIMIT),
    Option("--event NAME,...", "only these events", names_value(tuple(EVENTS))),
    Option("--verbose", "a line for each event, also of a rebalance"),
    (
        Option("--commits", "every committed value, instead of events"),
        Option("--rebalances", "every rebalance, instead of events"),
        Option("--handovers", "every partition that changed its owner, instead of events"),
    ),
    FAIL_IF_ANY,
    *ROWS,
)


def run(arguments: argparse.Namespace) -> int:
    groups = asked_groups(arguments)
    instead = next((name for name in INSTEAD if getattr(arguments, name)), None)
    asked = OF_EVENTS if instead is None else INSTEAD[instead]
    if instead is not None and arguments.event:
        raise UsageError(f"--event chooses among events: leave out --{instead}")
    if arguments.rebalances and arguments.topic:
        raise UsageError("a rebalance concerns all of a group's topics: leave out --topic")
    reader = open_lake(arguments)
    if None not in (arguments.since, arguments.until) and arguments.since > arguments.until:
        raise UsageError("--since is later than --until")
    Moment.of(reader, arguments.until)
    chosen = _chosen(reader, arguments, groups)
    found = newest(reader, asked, chosen, arguments.limit)
    names = _topic_names(reader, found) if asked is OF_EVENTS else {}
    rows = [_event(row, names) if asked is OF_EVENTS else asked.shown(row) for row in found]
    all_of_them = _count(reader, asked.view, chosen, asked.time)
    closing = _closing_line(reader, arguments, asked, chosen, len(rows), all_of_them)
    if arguments.format == "table" and asked is OF_EVENTS and not (arguments.verbose or arguments.event):
        rows = list(_in_lines(rows, is_cut=all_of_them > len(rows)))
    columns = asked.screen
    if groups is not None and len(groups) == 1:
        columns = tuple(column for column in columns if column.name != "group_id")
    # Before the rows, because these queries fail, too, if a table is damaged.
    since = None if arguments.since is None else to_datetime(arguments.since)
    notes = list(reduced_history(reader, of_groups(groups), since))
    if arguments.until is None:
        notes += [*about_waiting(reader, groups), *deleted_next(reader, groups)]
    write(rows, columns_of(asked.view), columns, arguments)
    say(closing)
    say_lines(notes)
    return fail_if_any(arguments, found)


def newest(reader: LakeReader, asked: Source, chosen: SqlCondition, limit: int) -> Rows:
    """The newest rows of a view with log offsets: in log order within one partition, across several also by time."""
    is_event = asked is OF_EVENTS
    index, log = (", event_index", ", log, state_partition") if is_event else ("", "")
    newest_first = f"offsets_partition DESC{log}, log_offset DESC{index and f'{index} DESC'}"
    # One record of __transaction_state is an event of each group whose offsets it dropped.
    newest_first += ", group_id DESC NULLS FIRST" if is_event else asked.order
    place = f"PARTITION BY offsets_partition{log} ORDER BY log_offset{index}"
    # A record may have an earlier time than a record before it, or none: the newest time so far is when it was written.
    query = f"""
        SELECT * FROM (
          SELECT *, max({"log_timestamp" if is_event else asked.time}) OVER ({place}) AS known_time
          FROM {asked.view} WHERE {chosen.sql.format(time=asked.time)}
        ) AS placed
        ORDER BY known_time DESC NULLS LAST, {newest_first}
        LIMIT {limit}"""
    return reader.sql(query, **chosen.parameters)[::-1]


def _chosen(reader: LakeReader, arguments: argparse.Namespace, groups: list[str] | None) -> SqlCondition:
    """The conditions of the options; {time} is the placeholder for the column of times."""
    names = ", ".join(f"'{name}'" for name in arguments.event or ())
    events = SqlCondition(f"event IN ({names})", {}) if names else EVERYTHING
    limits = {name: to_datetime(at) for name in ("since", "until") if (at := getattr(arguments, name)) is not None}
    return all_of(of_known(reader, groups, arguments.topic), events, between("{time}", limits))


def _topic_names(reader: LakeReader, events: Rows) -> dict[str, str]:
    """Names of topic ids, if an event may need one: assignments of KIP-848 name topics by id alone."""
    if not any(event["event"] == "assignment_changed" for event in events):
        return {}
    return {row["topic_id"]: row["topic"] for row in reader.rows("topics")}


def _event(row: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The event with its columns on the screen. `names`: by topic id."""
    before, after = row["value_before"], row["value_after"]
    if row["event"] == "assignment_changed":
        before, after = _assignment(before, names), _assignment(after, names)
    if row["offset_before"] is not None or row["offset_after"] is not None:
        before, after = _known(row["offset_before"]), _known(row["offset_after"])
    if row["event"].startswith("share_"):
        before, after = (_share_state(row[f"offset_{when}"], row[f"value_{when}"]) for when in ("before", "after"))
    subject = row["transactional_id"] if row["member_id"] is None else _member(row)
    if row["event"] == "member_replaced":
        subject, after = row["group_instance_id"], f"{after} ({row['client_host']})"
    if row["topic"] is not None:
        subject = row["topic"] if row["partition"] is None else f"{row['topic']}-{row['partition']}"
    return row | {
        "time": row["event_timestamp"],
        "what": EVENTS.get(row["event"], row["event"]),
        "subject": subject,
        "before": before,
        "after": after,
        "why": cause_text(row["cause"]),
    }


def _share_state(start_offset: int | None, state_epoch: str | None) -> str | None:
    """`offset 4, state epoch 2`; None: neither is known."""
    named = {"offset": start_offset, "state epoch": state_epoch}
    return ", ".join(f"{name} {value}" for name, value in named.items() if value is not None) or None


def _known(offset: int | None) -> int | None:
    """The offset as Kafka's tools show it: a negative one is none."""
    return None if offset is None or offset < 0 else offset


def _member(row: Mapping[str, Any]) -> str:
    """`gw (gw-bb0440c8)` for a static member, its member id for another."""
    instance = row["group_instance_id"]
    return str(row["member_id"]) if instance is None else f"{instance} ({row['member_id']})"


def _in_lines(rows: Rows, *, is_cut: bool) -> Iterator[dict[str, Any]]:
    """The rows, with the events of each rebalance in one of them. `is_cut`: rows of the first record may be missing."""
    records = groupby(rows, lambda row: (row["log"], row["offsets_partition"], row["log_offset"]))
    for number, (_, of_record) in enumerate(records):
        for (_, is_part), some in groupby(of_record, lambda row: (row["group_id"], row["event"] in REBALANCE)):
            events = list(some)
            is_whole = number > 0 or not is_cut
            names = {row["event"] for row in events}
            if is_part and is_whole and len(events) > 1 and names - {"state_changed", "assignment_changed"}:
                yield _rebalance(events)
            else:
                yield from events


def _rebalance(events: Rows) -> dict[str, Any]:
    by_event: dict[str, Rows] = {}
    for event in events:
        by_event.setdefault(event["event"], []).append(event)
    changes = [*by_event.get("state_changed", ()), *by_event.get("generation_changed", ())]
    who = [
        f"{word}: {first_of([_member(row) for row in by_event[name]], _NAMED_MEMBERS)}"
        for name, word in (("member_joined", "joined"), ("member_left", "left"))
        if name in by_event
    ]
    return events[0] | {
        "what": "rebalance",
        "subject": "; ".join(who) or None,
        "before": ", ".join(row["value_before"] for row in changes) or None,
        "after": ", ".join(row["value_after"] for row in changes) or None,
        "why": "; ".join(dict.fromkeys(row["why"] for row in by_event.get("member_left", ()) if row["why"])) or None,
    }


def _assignment(text: str | None, names: Mapping[str, str]) -> str | None:
    """`orders:0,1` for the JSON of an assignment, `active 0:[0,1]` for tasks."""
    held = [] if text is None else json.loads(text)
    if any("subtopology_id" in task for task in held):
        return " ".join(tasks_text(held)) or None
    return assignment_text({"topic": names.get(part.get("topic_id"))} | part for part in held)


def _rebalanced(row: dict[str, Any]) -> dict[str, Any]:
    """The rebalance with its columns on the screen."""
    some = {name: row[f"{name}_member_ids"] for name in ("joined", "left")}
    joined, gone = (first_of(each, _NAMED_MEMBERS) if each else None for each in some.values())
    return row | {
        "time": row["rebalance_timestamp"],
        "why": ": ".join([row["cause"], *filter(None, [first_of(row["changed_topics"] or (), _NAMED_MEMBERS)])]),
        "lasted": _duration(row["duration_ms"]),
        "joined": joined,
        "gone": gone,
    }


def _handed_over(row: dict[str, Any]) -> dict[str, Any]:
    """The change of owner with its columns on the screen."""
    return row | {"time": row["handover_timestamp"], "since": _duration(row["since_last_commit_ms"])}


def _duration(ms: int | None) -> str | None:
    return None if ms is None else format_duration(ms)


def _commit(row: dict[str, Any]) -> dict[str, Any]:
    """The record with its columns on the screen."""
    is_tombstone = row["committed_offset"] is None
    return row | {
        "time": row["log_timestamp"],
        "before": _known(row["previous_committed_offset"]),
        "after": "removed" if is_tombstone else _known(row["committed_offset"]),
        "metadata_shown": _short(row["metadata"]),
        "outcome": None if is_tombstone or row["producer_id"] is None else row["outcome"],
        "effect": row["effective_timestamp"] if row["took_effect"] else None,
    }


def _short(metadata: str | None) -> str | None:
    """For a table: the text, or how long it is, as any client may store a page of it; None: there is none."""
    if metadata is not None and len(metadata) > LONGEST_METADATA:
        return f"({len(metadata):,} characters)"
    return metadata or None


class Source(NamedTuple):
    """A view of what happened. `time`: its column of times; `shown`: a row on the screen; `order`: in one record."""

    view: str
    time: str
    noun: str
    screen: tuple[Column, ...]
    shown: Callable[[dict[str, Any]], dict[str, Any]]
    order: str = ""


OF_EVENTS = Source("all_events", "event_timestamp", "event", EVENT_SCREEN, dict)
INSTEAD = {
    "commits": Source("offset_history", "log_timestamp", "offset record", COMMIT_SCREEN, _commit),
    "rebalances": Source("rebalances", "rebalance_timestamp", "rebalance", REBALANCE_SCREEN, _rebalanced),
    "handovers": Source(
        *("handovers", "handover_timestamp", "handover", HANDOVER_SCREEN, _handed_over),
        ", topic DESC, partition DESC",
    ),
}


def _closing_line(
    reader: LakeReader,
    arguments: argparse.Namespace,
    asked: Source,
    chosen: SqlCondition,
    shown: int,
    all_of_them: int,
) -> str:
    """The counts for that time: of rows that are not shown and, for events, of the commits among them."""
    found = f"{counted(shown, asked.noun)}{_when(arguments)}"
    if all_of_them > shown:
        of_all = f"{shown:,} of {counted(all_of_them, asked.noun)}"
        found = f"{of_all}{_when(arguments)}, the newest (--limit {all_of_them} shows all)"
    has_commits = asked is OF_EVENTS and not arguments.event
    commits = _count(reader, "offset_commits", chosen, "log_timestamp") if has_commits else 0
    if commits:
        found += f"; {counted(commits, 'offset record')} in that time (--commits shows them)"
    return f"{found} ({reader.known_as_of()})"


def _count(reader: LakeReader, source: str, chosen: SqlCondition, time: str) -> int:
    (row,) = reader.sql(f"SELECT count(*) AS n FROM {source} WHERE {chosen.sql.format(time=time)}", **chosen.parameters)
    return int(row["n"])


def _when(arguments: argparse.Namespace) -> str:
    parts = [
        f" {word} {format_time_for_people(getattr(arguments, name))}"
        for word, name in (("from", "since"), ("to", "until"))
        if getattr(arguments, name) is not None
    ]
    return "".join(parts) + (" UTC" if parts else "")
