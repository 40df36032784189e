"""Which audits have looked for findings: the ledger says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The ledger's rows_added names the table for each audit that looked, with 0 if it found nothing.
FINDINGS = "findings"


def has_looked(audit: Mapping[str, Any]) -> bool:
    """Whether an audit that finished looked for findings: maintenance does not, nor did audits of older versions.

    `audit`: its row of the ledger; rows_added is enough of it.
    """
    return FINDINGS in (audit["rows_added"] or {})
