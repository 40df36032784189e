"""Tables whose logs have lost their newest version.

Delta reads a log up to its last file. If that file is lost, the table is as it was before, without an error. But each
log has the number of the audit that wrote to it last, and the ledger's column `newest_audits` has the number that it
must have.

The ledger's own loss shows if a table has rows of an audit whose claim is lost, too. If only its row `finished` is, the
audit seems to have been killed. An empty newest file shows that a row is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kgroups_spark.errors import KgroupsError
from kgroups_spark.tables.schemas import CHECKPOINTS, LOG_TABLES, STATE_LOG_HISTORY

# The lake's copy of the log, and the corrections of the state. All other tables follow from these.
NOT_REBUILT = (*LOG_TABLES, *STATE_LOG_HISTORY, CHECKPOINTS)


def is_lost(recorded: int | None, newest: int, files: Callable[[], Collection[object]]) -> bool:
    """Whether a table's log ends too early. `recorded`: its number in the ledger's `newest_audits`; None: it has none.
    `newest`: the newest audit in the log, 0: it has none, because the table is new, or a copy by other software, which
    has `files`."""
    return newest < (recorded or 0) and (newest > 0 or not files())


def claim_lost(written_by: int, ledger_transaction: int | None) -> bool:
    """Whether the ledger has lost the claim of an audit that wrote rows. `ledger_transaction`: under LEDGER_APP_ID in
    the ledger's log, which was read after the tables' logs; None: it has none, as in a copy by other software."""
    return ledger_transaction is not None and ledger_transaction >> 1 < written_by


def ledger_lost(location: str, written_by: int, claimed: int) -> KgroupsError:
    """The error of readers, and of audits, if a table has rows of an audit after the newest one that the ledger has."""
    return KgroupsError(
        f"the lake at {location} has lost the newest rows of its ledger (files in audits/_delta_log): tables have rows "
        f"of audit {written_by}, the ledger ends with audit {claimed}. Restore them, or copy the lake again while no "
        f"audit runs; or kgroups audit --take-over gives up the audits after {claimed}, and reads the log again"
    )


def ledger_end_empty(location: str, version: int) -> KgroupsError:
    """The error of readers if the newest file of the ledger's log, that version, has no content. Delta takes it for a
    commit that changed nothing, so that the audit that wrote it seems to be unfinished."""
    return KgroupsError(
        f"the newest file of the ledger of the lake at {location} is empty (audits/_delta_log/{version:020d}.json), as "
        "after a power failure: restore it; or kgroups audit gives up the audit that wrote it, and reads the log again"
    )


def version_lost(location: str, name: str) -> KgroupsError:
    """The error of a reader, and of an audit that would go on from an older version."""
    cure = "audit into a new lake" if name in NOT_REBUILT else "kgroups rebuild makes the table again"
    return KgroupsError(
        f"the lake at {location} has lost the newest version of table {name} (a file in {name}/_delta_log): restore "
        f"it; or {cure}"
    )


def table_lost(location: str, name: str) -> KgroupsError:
    """The error of a reader for a table that somebody has deleted."""
    return KgroupsError(
        f"the lake at {location} has no table {name} any more, which a lake of its layout has: restore it; or kgroups "
        "audit makes it again if the other tables have its rows"
    )
