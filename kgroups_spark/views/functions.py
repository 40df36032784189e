"""Functions over the views of a lake: SQL files as those of the views, in the order in which they are made."""

from __future__ import annotations

# Table functions but for the three of a group's partition, and known_as_of.
FUNCTIONS = (
    "java_hash",
    "offsets_partition_count",
    "offsets_partition_of",
    "log_ends_as_of",
    "known_as_of",
    "groups_as_of",
    "group_members_as_of",
    "committed_offsets_as_of",
    "pending_offsets_as_of",
    "expiring",
)
