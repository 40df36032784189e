"""An audit's tables compared with a broker's answers: each comparison returns our values in the answer's form, and its.

An answer is as in the corpora: `release`; `groups` by name, with `members` by id; `committed` offsets and `unstable`
partitions by group; `open_transactions` by offsets partition; `ends` of the offsets partitions.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Row = dict[str, Any]
# The rows of a table.
Rows = Callable[[str], list[Row]]
OursAndSaid = tuple[Any, Any]


def groups(rows: Rows, answer: Json) -> OursAndSaid:
    """Type, state, protocol and epochs of every group."""
    said = {name: {k: v for k, v in group.items() if k != "members"} for name, group in answer["groups"].items()}
    return {row["group_id"]: _group(row, said.get(row["group_id"], {})) for row in rows("groups")}, said


def _group(row: Row, said: Json) -> Json:
    """Our row in the form of the answer, which does not have all fields in every release."""
    group = {**row, "simple": row["is_simple"]}
    if group["group_type"] != "classic":
        group |= {"simple": False, "protocol_type": group["group_type"]}
    if group["topology"] is not None:
        topology = json.loads(group["topology"])
        names = sorted(each["subtopologyId"] for each in topology["subtopologies"])
        group["topology"] = {"epoch": topology["epoch"], "subtopologies": names}
    return {name: group[name] for name in said}


def members(rows: Rows, answer: Json) -> OursAndSaid:
    """Every member of every group that the answer describes."""
    said = {name: group["members"] for name, group in answer["groups"].items() if "members" in group}
    ours: dict[str, Json] = {name: {} for name in said}
    for row in rows("group_members"):
        of_group = said.get(row["group_id"], {})
        member = _member(row, answer)
        ours.setdefault(row["group_id"], {})[row["member_id"]] = {
            name: member[name] for name in of_group.get(row["member_id"], {})
        }
    return ours, said


def _member(row: Row, answer: Json) -> Json:
    member = dict(row)
    is_classic = answer["groups"].get(row["group_id"], {}).get("group_type", "classic") == "classic"
    name = "topic" if is_classic else "topic_id"
    assigned = list(row["assigned_partitions"] or ())
    if answer["release"] >= "4.3" and not is_classic:  # Describe adds what the member has still to give up
        assigned += row["pending_revocation_partitions"] or ()
    for key, partitions in (("assigned", assigned), ("target", row["target_partitions"] or ())):
        member[key] = sorted([p[name], p["partition"]] for p in partitions)
    for key in ("assigned_tasks", "target_tasks"):
        member[key] = sorted([t["role"], t["subtopology_id"], t["partition"]] for t in row[key] or ())
    member["subscribed_topics"] = sorted(row["subscribed_topics"] or ())
    return member


def committed_offsets(rows: Rows, answer: Json) -> OursAndSaid:
    """Topic, partition, offset, leader epoch and metadata, by group."""
    said = {name: offsets for name, offsets in answer["committed"].items() if offsets}
    ours = defaultdict(list)
    for row in rows("committed_offsets"):
        if not row["is_orphan"]:
            fields = ("topic", "partition", "committed_offset", "leader_epoch", "metadata")
            ours[row["group_id"]].append([row[name] for name in fields])
    return {name: sorted(offsets) for name, offsets in ours.items()}, said


def pending_offsets(rows: Rows, answer: Json) -> OursAndSaid:
    """Topic and partition by group, for the requested groups."""
    said = answer["unstable"]
    ours: dict[str, set[tuple[str, int]]] = {name: set() for name in said}
    for row in rows("pending_offsets"):
        if row["group_id"] in said:
            ours[row["group_id"]].add((row["topic"], row["partition"]))
    return {name: [list(slot) for slot in sorted(slots)] for name, slots in ours.items()}, said


def open_transactions(rows: Rows, answer: Json) -> OursAndSaid:
    """Producer and first offset by offsets partition."""
    said = {int(partition): producers for partition, producers in answer["open_transactions"].items()}
    ours: dict[int, list[Any]] = {partition: [] for partition in said}
    for row in rows("open_transactions"):
        ours[row["offsets_partition"]].append([row["producer_id"], row["transaction_start_offset"]])
    return {partition: sorted(producers) for partition, producers in ours.items()}, said
