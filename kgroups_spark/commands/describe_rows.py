"""The rows that `kgroups describe` prints, of offsets, members or the group, and their columns for JSON and CSV."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kgroups_spark.reading.group_description import Description
from kgroups_spark.reading.group_facts import OFFSET_ROW, OffsetSums, What
from kgroups_spark.reading.reader import Rows
from kgroups_spark.times import format_time

# Columns for JSON and CSV: those of all rows, then those of --offsets, --members and --state. The last, `known`, is how
# well the history covers the moment (moments.KnownTimes.known); null: the present state was requested.
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


def offset_rows(description: Description) -> list[dict[str, Any]]:
    """A row for each partition: the columns of `lag`, the owner, the time of expiry, the pending offset."""
    which = _which(description)
    return [which | row for row in description.offsets]


def member_rows(description: Description) -> list[dict[str, Any]]:
    """A row for each member: the columns of `group_members`, and those that a table shows."""
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
    # KIP-848's coordinator chooses the assignor that most members request. If none requests one, it is the broker's,
    # which is not in the log.
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
    """The same sums from the rows of a deleted group."""
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


def assignment_text(partitions: Iterable[dict[str, Any]]) -> str | None:
    """`orders:0,1;payments:2`, as Kafka's tools print it; None: nothing is assigned."""
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


# The rows of each kind, and the names of their columns.
KINDS: dict[What, tuple[Callable[[Description], Rows], Sequence[str]]] = {
    "offsets": (offset_rows, OFFSET_COLUMNS),
    "members": (member_rows, MEMBER_COLUMNS),
    "state": (state_rows, STATE_COLUMNS),
}
