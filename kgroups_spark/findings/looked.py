"""Which audits have looked for findings, by the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The ledger's rows_added has this table for each audit that looked, with 0 if it found nothing.
FINDINGS = "findings"


def has_looked(audit: Mapping[str, Any]) -> bool:
    """Whether a finished audit looked for findings. Maintenance does not, and audits of older versions did not.

    `audit`: its row of the ledger; rows_added is enough of it.
    """
    return FINDINGS in (audit["rows_added"] or {})
