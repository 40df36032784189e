"""The rows of the current and the version tables (docs/tables.md), as plain tuples in the order of their columns,
`offsets_partition` first, without audit_id. Times are epoch milliseconds, None for null."""

from __future__ import annotations

from typing import Final, NamedTuple


def none_if_unset(number: int | None) -> int | None:
    return None if number == -1 else number


# A member as its records name it: the columns, and their values; null: the records do not name it so.
NAME_COLUMNS = ("member_id", "group_instance_id", "client_id", "client_host")
MemberName = tuple[str, str | None, str | None, str | None]


class AssignedPartition(NamedTuple):
    """One partition of an assignment. The log names its topic by name (classic) or by id (consumer, share)."""

    topic: str | None
    topic_id: str | None
    partition: int
    assignment_epoch: int | None


class Task(NamedTuple):
    """One task of a streams member."""

    role: str
    subtopology_id: str
    partition: int


class GroupRow(NamedTuple):
    """A row of `groups` or `group_versions`: the group after the record at `log_offset`; None: not of groups of its
    type. If `is_removed`, `state` is Dead, and only `group_type` and `is_simple` keep their values."""

    offsets_partition: int
    group_id: str
    group_type: str
    state: str
    is_simple: bool
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int | None = None
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    leader: str | None = None
    current_state_timestamp: int | None = None
    state_since: int | None = None
    member_count: int = 0
    metadata_hash: int | None = None
    resolved_regex_topics: dict[str, list[str]] | None = None
    is_misplaced: bool | None = None
    topology: str | None = None
    stored_description_epoch: int | None = None
    log_offset: int | None = None
    log_timestamp: int | None = None
    is_removed: bool = False


# Where the columns of a GroupRow end whose change makes a version.
VERSIONED: Final = -5


class MemberRow(NamedTuple):
    """A row of `group_members`, or of `group_member_versions`: the member after the record at `log_offset`, or its
    removal (`is_removed`). Columns that members of groups of the type do not have are None."""

    offsets_partition: int
    group_id: str
    member_id: str
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    session_timeout_ms: int | None = None
    member_epoch: int | None = None
    previous_member_epoch: int | None = None
    member_state: str | None = None
    uses_classic_protocol: bool | None = None
    server_assignor: str | None = None
    subscribed_topics: list[str] | None = None
    subscribed_regex: str | None = None
    assigned_partitions: list[AssignedPartition] | None = None
    pending_revocation_partitions: list[AssignedPartition] | None = None
    target_partitions: list[AssignedPartition] | None = None
    assigned_tasks: list[Task] | None = None
    target_tasks: list[Task] | None = None
    pending_revocation_tasks: list[Task] | None = None
    topology_epoch: int | None = None
    process_id: str | None = None
    user_data: bytes | None = None
    user_data_json: str | None = None
    log_offset: int | None = None
    log_timestamp: int | None = None
    is_removed: bool = False


VERSIONS: dict[str, type[GroupRow | MemberRow]] = {"group_versions": GroupRow, "group_member_versions": MemberRow}
