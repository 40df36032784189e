"""Which audits have looked for findings: the ledger says it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# The ledger's rows_added names the table for each audit that looked, with 0 if it found nothing.
FINDINGS = "findings"


def audits_that_looked(audits: Iterable[Mapping[str, Any]]) -> list[int]:
    """Numbers of finished audits that looked for findings, in order: maintenance does not, nor did audits of older
    versions."""
    return sorted(
        row["audit_id"] for row in audits if row["status"] == "finished" and FINDINGS in (row["rows_added"] or {})
    )
