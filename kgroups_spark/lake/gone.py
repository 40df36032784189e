"""Deleted tables, and those whose newest version is lost: tables that can be rebuilt, and those that cannot."""

from __future__ import annotations

from collections.abc import Sequence

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.fence import Fence
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import newest_audit
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.lost_versions import NOT_REBUILT, lost_versions, version_lost
from kgroups_spark.tables.schemas import TABLES


def gone_tables(lake: Lake) -> list[str]:
    """The tables that the lake lacks. Raises KgroupsError if one of them cannot be rebuilt."""
    there = set(lake.place.names())
    gone = [name for name in TABLES if name not in there]
    lost = [name for name in gone if name in NOT_REBUILT]
    if lost:
        raise KgroupsError(
            f"the lake at {lake.location} has lost table {lost[0]}, which cannot be rebuilt: restore it, or audit into "
            "a new lake"
        )
    return gone


def require_newest(lake: Lake, last: AuditRow | None, *, rebuilds: bool = False) -> None:
    """Raises KgroupsError for a table that lacks rows of the last finished audit (None: none has finished), because its
    log has lost its newest version: after the next audit nothing would show it. `rebuilds`: only for a table that
    cannot be rebuilt."""
    if last is None:
        return
    added = {name: rows for name, rows in (last.rows_added or {}).items() if rows and lake.place.has(name)}
    newest = {name: newest_audit(lake.table(name).last_transaction) for name in added}
    # An unfinished audit may have rewritten some of them.
    newest = {name: audit_id for name, audit_id in newest.items() if audit_id <= last.audit_id}
    for name in lost_versions(added, last.audit_id, newest, lambda name: not lake.table(name).files()):
        if name in NOT_REBUILT or not rebuilds:
            raise version_lost(lake.location, name)


def make_again(fence: Fence, names: Sequence[str]) -> None:
    """Creates the tables, empty; a table that another process has just created stays as it is."""
    for name in names:
        fence.check_claim()
        fence.lake.create_table(TABLES[name])
