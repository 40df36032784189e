"""Which audit's tables a reader sees: the last finished one's. What the ledger and the tables' logs tell of it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

# What a row of the ledger says of its audit (column `status`).
RUNNING = "running"
FINISHED = "finished"

# Under this name each table's log remembers the newest audit that wrote it.
APP_ID = "kgroups-audit"
# What an audit makes anew from history has its own: the same audit then appends to the same tables.
REBUILD_APP_ID = "kgroups-rebuild"
# Everything that writes rows under the number of an audit.
APP_IDS = (APP_ID, REBUILD_APP_ID)


def last_finished_of(audits: pa.Table) -> int:
    """The greatest number of a finished audit among rows of the ledger; 0: none has finished."""
    finished = audits.filter(pc.equal(audits["status"], FINISHED))
    return pc.max(finished["audit_id"]).as_py() or 0
