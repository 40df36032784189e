"""Notes of `kgroups describe` on a group: that it is rebalancing, was deleted, or is in two offsets partitions."""

from __future__ import annotations

import argparse

from kgroups_spark.escapes import shell_option, shell_word
from kgroups_spark.reading.gone_groups import REMOVAL_CAUSES
from kgroups_spark.reading.group_description import DEAD, Description
from kgroups_spark.reading.reader import LakeReader
from kgroups_spark.times import format_time, format_utc

_ELSEWHERE = "START-OFFSET and LAG of a share group are not in __consumer_offsets but in __share_group_state"
# Notes by the knowledge of that log's history (state_known_as_of); None: the log was not read.
ABOUT_SHARE_STATE = {
    None: [f"{_ELSEWHERE}, which was not read: these are the partitions that have one."],
    "before": [f"{_ELSEWHERE}, whose history begins later: these are the partitions that have one."],
    "incomplete": ["__share_group_state lost records before they were read: START-OFFSET may be missing or stale."],
    "after": ["START-OFFSET comes from the newest record of __share_group_state that was read, which is older."],
}


def notes_on(reader: LakeReader, description: Description, arguments: argparse.Namespace) -> list[str]:
    """Notes on a group for people, in addition to its rows."""
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
        when = "" if arguments.as_of is None else f" as of {format_utc(arguments.as_of)}"
        return [f"{name} does not exist{when} (Dead) and is nowhere in the log read up to then."]
    if removal.removed_at is None:
        lines = [
            f"{name} does not exist (Dead). When and why it was removed is unknown: its tombstones were compacted away "
            "before they were read."
        ]
    else:
        why = REMOVAL_CAUSES.get(removal.cause or "", "the cause is unknown, as the lake has no events of that time")
        lines = [f"{name} does not exist (Dead): removed {format_utc(removal.removed_at)}, {why}."]
    if description.members and removal.members_as_of is not None and not arguments.members:
        lines.append(f"Last members, until {format_utc(removal.members_as_of)}:")
        lines += [
            f"  {member['member_id']} (client id {member['client_id']}, host {member['client_host']})"
            for member in sorted(description.members, key=lambda row: str(row["member_id"]))
        ]
    if removal.offsets_as_of is None or not description.offsets:
        return [*lines, "History has no committed offsets of it."]
    moment = format_time(removal.offsets_as_of)
    group = shell_option("--group", description.group_id)
    command = f"kgroups export-offsets --lake {shell_word(reader.location)} {group} --as-of {moment}"
    lines += ["To restore its last offsets:", f"  {command} --output offsets.csv"]
    if not arguments.state:
        what = "its last members" if arguments.members else "what it had"
        lines.append(f"Below: {what}, before the removal.")
    return lines
