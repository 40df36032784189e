"""The coordinator state that an audit goes on from: whose it is, and whether the rules still are those it was made by
(R7)."""

from __future__ import annotations

from dataclasses import dataclass

from kgroups_spark.coordinator.releases import RULES_VERSION
from kgroups_spark.coordinator.state_rows import STATE_FORMAT
from kgroups_spark.tables.lake import Lake
from kgroups_spark.tables.ledger import AuditRow


@dataclass(frozen=True)
class SavedState:
    """`audit_id`: whose rows of coordinator_state count; None: there are none. `files`: where they are.

    `why_rebuilt`: what differs from the rules that made it, as a sentence; None: it can be used.
    """

    audit_id: int | None
    files: tuple[str, ...]
    why_rebuilt: str | None

    @property
    def must_be_rebuilt(self) -> bool:
        return self.why_rebuilt is not None


def saved_state(lake: Lake, before: AuditRow | None, release_version: str) -> SavedState:
    """The state that the last finished audit (None: none has) left, or an older one that it had no reason to
    rewrite."""
    if before is None:
        return SavedState(None, (), None)
    table = lake.table("coordinator_state")
    written = [(file.bound("minValues", "audit_id"), f"{table.path}/{file.path}") for file in table.files()]
    counting = [audit_id for audit_id, _ in written if audit_id is not None and audit_id <= before.audit_id]
    newest = max(counting, default=None)
    files = tuple(path for audit_id, path in written if audit_id is not None and audit_id == newest)
    return SavedState(newest, files, _difference(before, release_version))


def _difference(before: AuditRow, release_version: str) -> str | None:
    for name, then, now in (
        ("release", before.release_version, release_version),
        ("rules version", before.rules_version, RULES_VERSION),
        ("state format", before.state_format, STATE_FORMAT),
    ):
        if then != now:
            return f"state rebuilt from history: audit {before.audit_id} used {name} {then}, this one {now}"
    return None
