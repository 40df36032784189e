"""Deleted tables, and those whose newest version is lost: tables that can be rebuilt, and those that cannot."""

from __future__ import annotations

from collections.abc import Sequence

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.fence import Fence
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import newest_audit
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.lost_versions import NOT_REBUILT, is_lost, version_lost
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


def require_newest(lake: Lake, last: AuditRow | None, *, rebuilds: bool = False) -> dict[str, int]:
    """The newest audit in each table's log, as the last finished audit recorded it (None: none has finished), without
    deleted tables. Raises KgroupsError for a table whose log has lost that version: after the next audit nothing would
    show it. `rebuilds`: only for a table that cannot be rebuilt; the others are left out."""
    found = {}
    for name, recorded in ((last and last.newest_audits) or {}).items():
        if not lake.place.has(name):
            continue
        log = lake.table(name)
        if not is_lost(recorded, newest_audit(log.last_transaction), log.files):
            found[name] = recorded
        elif name in NOT_REBUILT or not rebuilds:
            raise version_lost(lake.location, name)
    return found


def make_again(fence: Fence, names: Sequence[str]) -> None:
    """Creates the tables, empty; a table that another process has just created stays as it is."""
    for name in names:
        fence.check_claim()
        fence.lake.create_table(TABLES[name])
