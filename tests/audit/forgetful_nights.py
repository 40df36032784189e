"""Tables after a log was read again, beside the log as it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from kgroups_spark.decoding.topic_names import TopicNames
from kgroups_spark.plan.delete_retention import DeleteRetention, LastReads
from kgroups_spark.tables.schemas import arrow_schema
from kgroups_spark.times import to_epoch_ms
from tests.audit.cleaned_nights import Nights
from tests.audit.cleaner import Files
from tests.audit.pipeline import (
    CURRENT,
    VERSIONS,
    Audited,
    How,
    Row,
    audit_night,
    rebuild,
    whole_ranges,
)

DAY_MS = 86_400_000
# The place and time of the record behind a row: a state that was carried has seen records that the log has lost.
PROVENANCE = {"groups": ("state_since", "log_offset"), "group_members": ("log_offset",)}


def long_after(nights: Nights, age_ms: int = 2 * DAY_MS) -> DeleteRetention | None:
    """As if the audits so far had been so long ago."""
    if nights.last is None:
        return None
    return DeleteRetention(DAY_MS, LastReads(nights.last, list), to_epoch_ms(nights.last.started_at) + age_ms)


def now(audited: Audited) -> dict[str, Any]:
    """The rows of the current tables, without PROVENANCE."""
    tables = {name: audited.rows(name) for name in CURRENT}
    for name, columns in PROVENANCE.items():
        for row in tables[name]:
            for column in columns:
                del row[column]
    return tables


def log_as_it_is(files: Files, nights: Nights) -> Audited:
    """One audit of all that the log still holds; what topic ids are called is known for good."""
    names = TopicNames()
    names.merge(nights.audited.names.rows())
    return audit_night(files, whole_ranges(files), nights.how, Audited(names=names))


def corrections(audited: Audited) -> list[Row]:
    return audited.rows("state_corrections")


def groups_by_versions(audited: Audited) -> list[Row]:
    """The last version of each group, if it did not remove it, with the columns of `groups` that versions have."""
    last: dict[tuple[int, str], Row] = {}
    for row in sorted(audited.rows("group_versions"), key=lambda row: row["log_offset"]):
        last[row["offsets_partition"], row["group_id"]] = row
    dropped = ("is_removed", "log_offset", "log_timestamp")
    return [
        {name: value for name, value in row.items() if name not in dropped}
        for _, row in sorted(last.items())
        if not row["is_removed"]
    ]


def groups_now(audited: Audited) -> list[Row]:
    """The rows of `groups`, with the columns that versions have."""
    of_versions = {*arrow_schema("group_versions").names} - {"log_offset"}
    return [{name: value for name, value in row.items() if name in of_versions} for row in audited.rows("groups")]


def members_by_versions(audited: Audited) -> set[tuple[int, str, str]]:
    last: dict[tuple[int, str, str], bool] = {}
    for row in sorted(audited.rows("group_member_versions"), key=lambda row: row["log_offset"]):
        last[row["offsets_partition"], row["group_id"], row["member_id"]] = row["is_removed"]
    return {member for member, is_removed in last.items() if not is_removed}


def members_now(audited: Audited) -> set[tuple[int, str, str]]:
    return {(row["offsets_partition"], row["group_id"], row["member_id"]) for row in audited.rows("group_members")}


def assert_versions_say_what_is(audited: Audited) -> None:
    for name in VERSIONS:
        keys = Counter(
            (r["offsets_partition"], r["log_offset"], r["group_id"], r.get("member_id")) for r in audited.rows(name)
        )
        assert not [key for key, count in keys.items() if count > 1]
    assert groups_by_versions(audited) == groups_now(audited)
    assert members_by_versions(audited) == members_now(audited)


def assert_rebuild_says_the_same(audited: Audited, how: How) -> None:
    rebuilt = rebuild(audited, how)
    for name in (*CURRENT, *VERSIONS):
        assert rebuilt.rows(name) == audited.rows(name), name
    assert rebuilt.state() == audited.state()
    twin = rebuild(audited, replace(how, by_objects=True))
    for name in (*CURRENT, *VERSIONS, "group_events"):
        assert rebuilt.rows(name) == twin.rows(name), name
    assert rebuilt.state() == twin.state()


def waiting(audited: Audited) -> set[tuple[int, str]]:
    """Groups that the last audit could not correct yet."""
    last = audited.history["state_corrections"]
    rows = [row for table in last for row in table.to_pylist() if row["audit_id"] == audited.audits]
    return {(row["offsets_partition"], row["group_id"]) for row in rows if row["correction"] == "wait"}


def but_for(groups: set[tuple[int, str]], tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """The tables without these groups; whether their offsets are orphans is left open."""
    left = {
        name: [row for row in rows if (row["offsets_partition"], row.get("group_id")) not in groups]
        for name, rows in tables.items()
    }
    return {**left, "committed_offsets": [{**row, "is_orphan": None} for row in tables["committed_offsets"]]}


def assert_as_the_log_is(nights: Nights, files: Files) -> None:
    late, as_it_is = waiting(nights.audited), now(log_as_it_is(files, nights))
    assert but_for(late, now(nights.audited)) == but_for(late, as_it_is)
    assert late or now(nights.audited) == as_it_is
