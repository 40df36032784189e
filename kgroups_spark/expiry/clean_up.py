"""One clean-up of the broker over the current tables of some coordinator shards, as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kgroups_spark.coordinator.expiry_rules import ExpiryRules, expiry_rules
from kgroups_spark.coordinator.releases import release
from kgroups_spark.expiry.group_expiry import group_expiry
from kgroups_spark.expiry.offset_expiry import offset_expiry
from kgroups_spark.tables.rows import as_table, constant, no_rows, with_columns
from kgroups_spark.tables.schemas import arrow_schema

# The columns that decide. HELD_GROUPS is not a table of the lake: it has the groups for which producers are noted.
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
DECISIONS = ("offset_expiry", "group_expiry")

Output = tuple[str, "pa.RecordBatch | pa.Table"]


def columns_needed(name: str) -> pa.Schema:
    """The columns of a table of DECIDED_BY."""
    whole = arrow_schema("groups" if name == HELD_GROUPS else name)
    return pa.schema([whole.field(column) for column in DECIDED_BY[name]])


@dataclass(frozen=True)
class CleanUp:
    """The moment of a clean-up, its retention and release; times in epoch ms. `audit_id`: of the rows. `tried`: rules
    of no release, which a comparison tries; None: those of the release."""

    as_of: int
    retention_ms: int
    release_version: str
    audit_id: int
    tried: ExpiryRules | None = None

    @property
    def rules(self) -> ExpiryRules:
        return expiry_rules(self.release_version) if self.tried is None else self.tried

    @property
    def looks_at_held_groups(self) -> bool:
        """Whether the release checks HELD_GROUPS, as 3.8 to 4.0.0 do."""
        return release(self.release_version).open_transactions_by == "group"

    def decided(self, tables: Mapping[str, pa.Table]) -> Iterator[tuple[str, pa.Table]]:
        """The rows of DECISIONS for the shards with rows in the tables (DECIDED_BY)."""
        offsets, groups, pending = self.of_offsets(tables), tables["groups"], tables["pending_offsets"]
        yield "offset_expiry", offsets
        yield "group_expiry", group_expiry(offsets, groups, pending, **self._given, held_groups=tables[HELD_GROUPS])

    def of_offsets(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of offset_expiry alone, which do not depend on HELD_GROUPS."""
        names = ("committed_offsets", "groups", "group_members", "pending_offsets")
        return offset_expiry(*(tables[name] for name in names), **self._given)

    @property
    def _given(self) -> dict[str, Any]:
        return {
            "as_of": self.as_of,
            "retention_ms": self.retention_ms,
            "rules": self.rules,
            "audit_id": self.audit_id,
        }

    def after(self, current: Iterable[Output]) -> Iterator[Output]:
        """(table, rows): passes on the current tables of some shards, including HELD_GROUPS, then adds the decisions on
        them."""
        needed = list[tuple[str, pa.Table]]()
        for name, rows in current:
            if name in DECIDED_BY:
                needed.append((name, _needed(name, rows)))
            if name != HELD_GROUPS:
                yield name, rows
        yield from self.decided(deciding_tables(needed))


def deciding_tables(current: Iterable[Output]) -> dict[str, pa.Table]:
    """The tables of DECIDED_BY from the current tables of some shards, including HELD_GROUPS."""
    lots = {name: [no_rows(columns_needed(name))] for name in DECIDED_BY}
    for name, rows in current:
        if name in lots:
            lots[name].append(_needed(name, rows))
    return {name: pa.concat_tables(tables) for name, tables in lots.items()}


def decided_before(decisions: pa.Table, audit_id: int) -> pa.Table:
    """Rows of offset_expiry as rows of previous_offset_expiry of the audit `audit_id`."""
    ours = with_columns(decisions, audit_id=constant(audit_id, decisions.num_rows, pa.int64()))
    return ours.append_column("decided_by", decisions["audit_id"])


def _needed(name: str, rows: pa.RecordBatch | pa.Table) -> pa.Table:
    return as_table(rows).select(DECIDED_BY[name]).cast(columns_needed(name))
