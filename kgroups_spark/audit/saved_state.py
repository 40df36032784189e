"""The coordinator state from which an audit starts: the audit that saved it, and whether the rules have changed since
(R7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kgroups_spark.coordinator.releases import RULES_VERSION
from kgroups_spark.coordinator.state_entries import STATE_FORMAT
from kgroups_spark.history.names import HistoryNames
from kgroups_spark.lake.claim import Claim
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import TABLES_ALONE
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.saved_states import newest_state, rows_of_state
from kgroups_spark.tables.schemas import CHECKPOINTS

# Tables that do not follow from history, or not yet.
NOT_REBUILT = ("group_traffic", "topic_offsets", "previous_offset_expiry", "audits")


@dataclass(frozen=True)
class SavedState:
    """`audit_id`: the audit with the checkpoints to start from; None: there are none.

    `why_rebuilt`: the reason why it must be rebuilt, as a sentence; None: it can be used.
    `kept_audit_id`: the audit with rows that stay until this one has finished, so that it can be repeated if killed.
    `names`: the names in history, if the state was rebuilt from it; None: the current tables have them.
    `rows`: their rough number by offsets partition.
    """

    audit_id: int | None
    why_rebuilt: str | None = None
    kept_audit_id: int | None = None
    names: HistoryNames | None = None
    rows: Mapping[int, int] = field(default_factory=dict)

    @property
    def must_be_rebuilt(self) -> bool:
        return self.why_rebuilt is not None


def saved_state(lake: Lake, claim: Claim, release_version: str, recreated: Sequence[str] = ()) -> SavedState:
    """The state of the last finished audit, or an older one if that audit had no reason to rewrite it.

    `recreated`: tables that were deleted and have been created again.
    """
    before = claim.before
    if before is None:
        return SavedState(None)
    newest = newest_state(lake, CHECKPOINTS, before.audit_id)
    why = _gone(recreated) or _difference(before, release_version) or left_undone(claim, before)
    ends, rows = ({}, {}) if newest is None else _ends_and_rows(lake, newest)
    why = why or _missing(before, newest, ends)
    return SavedState(newest, why, kept_audit_id=newest, rows=rows)


def _ends_and_rows(lake: Lake, audit_id: int) -> tuple[dict[int, int], dict[int, int]]:
    """The end offset of an audit's state, and its number of rows, both by offsets partition."""
    columns = ["offsets_partition", "log_offset"]
    rows = lake.rows(CHECKPOINTS, columns=columns, conditions=rows_of_state(CHECKPOINTS, audit_id))
    found = rows.group_by("offsets_partition").aggregate([("log_offset", "max"), ([], "count_all")]).to_pydict()
    numbers = found["offsets_partition"]
    ends, counts = (dict(zip(numbers, found[name], strict=True)) for name in ("log_offset_max", "count_all"))
    return ends, counts


def _missing(before: AuditRow, newest: int | None, saved: Mapping[int, int]) -> str | None:
    """Why the newest state is not that of the last finished audit; None: it is. A state that ends at another log offset
    than that audit is an older one, restored or left as the only one."""
    if newest is None:
        return (
            f"state rebuilt from history: the lake has none of audit {before.audit_id}" if before.partitions else None
        )
    for each in before.partitions or ():
        number, end_offset = each.offsets_partition, each.end_offset
        if saved.get(number) != end_offset and (number in saved or each.last_batch_offset is not None):
            return (
                f"state rebuilt from history: audit {before.audit_id} had read partition {number} up to offset "
                f"{end_offset}, and its state is {f'that before {saved[number]}' if number in saved else 'gone'}"
            )
    return None


def intention(release_version: str, source: str, gone: Sequence[str]) -> dict[str, Any]:
    """The contents of the ledger's row `running`, so that the next audit knows whether this one may have rebuilt
    history."""
    return {
        "release_version": release_version,
        "rules_version": RULES_VERSION,
        "state_format": STATE_FORMAT,
        "source": source,
        "notes": (_gone(gone),) if _gone(gone) else None,
    }


def _gone(recreated: Sequence[str]) -> str | None:
    rebuilt = [name for name in recreated if name not in NOT_REBUILT]
    return f"state rebuilt from history: table {', '.join(rebuilt)} was missing" if rebuilt else None


def _difference(before: AuditRow, release_version: str) -> str | None:
    is_readable = before.state_format == STATE_FORMAT
    for name, then, now in (
        ("release", before.release_version, release_version),
        ("rules version", before.rules_version, RULES_VERSION),
        ("state format", before.state_format, before.state_format if is_readable else STATE_FORMAT),
    ):
        if then != now:
            return f"state rebuilt from history: audit {before.audit_id} used {name} {then}, this one {now}"
    return None


def left_undone(claim: Claim, before: AuditRow) -> str | None:
    """Why version tables may not be those of the last finished audit: an unfinished one was rebuilding them."""
    for row in claim.unfinished_rows:
        meant = (row.release_version, row.rules_version)
        is_other = meant != (before.release_version, before.rules_version)
        is_other |= before.state_format != STATE_FORMAT
        if row.release_version is not None and (row.source == TABLES_ALONE or is_other or row.notes):
            return f"state rebuilt from history: audit {row.audit_id} began to, and did not finish"
    return None
