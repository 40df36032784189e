"""One clean-up's decisions over the current tables of some coordinator shards: all tables as Arrow, wherever they came
from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import pyarrow as pa

from kgroups_spark.coordinator.releases import release
from kgroups_spark.expiry import group_expiry, offset_expiry
from kgroups_spark.tables.schemas import arrow_schema

# The columns that decisions are made by. No table of the lake: groups for which producers are noted.
HELD_GROUPS = "held_groups"
DECIDED_BY = {
    "groups": (
        "offsets_partition",
        "group_id",
        "group_type",
        "state",
        "protocol_type",
        "protocol",
        "generation",
        "current_state_timestamp",
        "resolved_regex_topics",
        "topology",
        "stored_description_epoch",
    ),
    "group_members": ("offsets_partition", "group_id", "subscribed_topics"),
    "committed_offsets": (
        "offsets_partition",
        "group_id",
        "topic",
        "partition",
        "committed_offset",
        "log_offset",
        "commit_timestamp",
        "expire_timestamp",
        "value_version",
    ),
    "pending_offsets": ("offsets_partition", "group_id", "topic", "partition"),
    HELD_GROUPS: ("offsets_partition", "group_id"),
}


def columns_needed(name: str) -> pa.Schema:
    """The columns of a table of DECIDED_BY."""
    whole = arrow_schema("groups" if name == HELD_GROUPS else name)
    return pa.schema([whole.field(column) for column in DECIDED_BY[name]])


@dataclass(frozen=True)
class Judging:
    """By what is judged; times in ms."""

    as_of: int
    retention_ms: int
    release_version: str
    audit_id: int

    @property
    def looks_at_held_groups(self) -> bool:
        """3.8 to 4.0.0."""
        return release(self.release_version).open_transactions_by == "group"

    def decided(self, tables: Mapping[str, pa.Table]) -> Iterator[tuple[str, pa.Table]]:
        """The rows of offset_expiry and group_expiry for the shards whose rows are in the tables (DECIDED_BY)."""
        groups, pending = tables["groups"], tables["pending_offsets"]
        offsets = offset_expiry(tables["committed_offsets"], groups, tables["group_members"], pending, **asdict(self))
        yield "offset_expiry", offsets
        held = tables[HELD_GROUPS] if self.looks_at_held_groups else None
        yield "group_expiry", group_expiry(offsets, groups, pending, **asdict(self), held_groups=held)
