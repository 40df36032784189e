"""Tables after a log was read again, compared with the log itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kgroups_spark.replay.corrections import Correction
from kgroups_spark.tables.definitions import REREAD
from kgroups_spark.tables.schemas import CHECKPOINTS, arrow_schema
from tests.logs.cleaner import Files, GrowingLog
from tests.logs.forgetful_logs import forgetful_log, forgetful_night
from tests.nights.cleaned_nights import Nights
from tests.nights.nights_here import Audited, How
from tests.nights.replayed_logs import MemoryTables, replayed
from tests.nights.reported_tables import CURRENT, VERSIONS, Reported, Row

REPORTED = (*CURRENT, *VERSIONS, "checkpoints", "transaction_markers", "quarantine")
# The place and time of a row's record: a carried state has seen records that the log has lost.
PROVENANCE = {"groups": ("state_since", "log_offset"), "group_members": ("log_offset",)}


def three_nights() -> list[Files]:
    """The files of three audits; before the second audit the log loses records."""
    log, found = GrowingLog({**forgetful_log(37), **forgetful_log(21, partition=1)}), []
    for left in range(5, 0, -1):
        forgetful_night(log, left)
        found += [dict(log.files)] if left in (4, 2, 1) else []
    return found


def comparable(table: list[Row]) -> list[str]:
    """The rows as sorted texts, without the place and the audit of their reading."""
    return sorted(
        repr(sorted((name, value) for name, value in row.items() if name not in ("audit_id", "file"))) for row in table
    )


def now(audited: Reported) -> dict[str, Any]:
    """The rows of the current tables, without PROVENANCE."""
    tables = {name: audited.rows(name) for name in CURRENT}
    for name, columns in PROVENANCE.items():
        for row in tables[name]:
            for column in columns:
                del row[column]
    return tables


def log_as_it_is(files: Files, nights: Nights) -> MemoryTables:
    """One audit of everything that the log still has; names of topic ids stay known."""
    return replayed(files, nights.how, nights.audited.topic_names().rows())


def corrections(audited: Reported) -> list[Row]:
    return [row for row in audited.rows(CHECKPOINTS) if row["reason"] == REREAD]


def correction_of(row: Row) -> Correction:
    return Correction(*(row[name] for name in Correction._fields))


def groups_by_versions(audited: Reported) -> list[Row]:
    """The last version of each group that is not removed, with the columns of `groups` that versions have."""
    last: dict[tuple[int, str], Row] = {}
    for row in sorted(audited.rows("group_versions"), key=lambda row: row["log_offset"]):
        last[row["offsets_partition"], row["group_id"]] = row
    dropped = ("is_removed", "log_offset", "log_timestamp", "is_misplaced")
    return [
        {name: value for name, value in row.items() if name not in dropped}
        for _, row in sorted(last.items())
        if not row["is_removed"]
    ]


def groups_now(audited: Reported) -> list[Row]:
    """The rows of `groups`, with the columns that versions have."""
    of_versions = {*arrow_schema("group_versions").names} - {"log_offset", "is_misplaced"}
    return [{name: value for name, value in row.items() if name in of_versions} for row in audited.rows("groups")]


def members_by_versions(audited: Reported) -> set[tuple[int, str, str]]:
    last: dict[tuple[int, str, str], bool] = {}
    for row in sorted(audited.rows("group_member_versions"), key=lambda row: row["log_offset"]):
        last[row["offsets_partition"], row["group_id"], row["member_id"]] = row["is_removed"]
    return {member for member, is_removed in last.items() if not is_removed}


def members_now(audited: Reported) -> set[tuple[int, str, str]]:
    return {(row["offsets_partition"], row["group_id"], row["member_id"]) for row in audited.rows("group_members")}


def assert_versions_say_what_is(audited: Reported) -> None:
    for name in VERSIONS:
        keys = Counter(
            (r["offsets_partition"], r["log_offset"], r["group_id"], r.get("member_id")) for r in audited.rows(name)
        )
        assert not [key for key, count in keys.items() if count > 1]
    assert groups_by_versions(audited) == groups_now(audited)
    assert members_by_versions(audited) == members_now(audited)


def assert_rebuild_says_the_same(audited: Audited, how: How) -> None:
    rebuilt = audited.rebuilt(how)
    for name in (*CURRENT, *VERSIONS):
        assert rebuilt.rows(name) == audited.rows(name), name
    assert rebuilt.state() == audited.state()


def waiting(audited: Audited) -> set[int]:
    """The partitions that the last audit could not correct yet, because they had no new record."""
    read = audited.newest.partitions or ()
    return {each.offsets_partition for each in read if each.records == each.records_reread}


def but_for(late: set[int], tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """The tables without these partitions."""
    return {name: [row for row in rows if row["offsets_partition"] not in late] for name, rows in tables.items()}


def assert_as_the_log_is(nights: Nights, files: Files) -> None:
    late, as_it_is = waiting(nights.audited), now(log_as_it_is(files, nights))
    assert but_for(late, now(nights.audited)) == but_for(late, as_it_is)
