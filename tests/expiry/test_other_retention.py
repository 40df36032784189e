"""Decisions of one retention made into those of another, against the twin that decides from the start; no Spark."""

import pytest

from kgroups_spark.commands.other_retention import for_retention
from kgroups_spark.tables.schemas import arrow_schema
from kgroups_spark.times import to_datetime
from tests.expiry import test_twin, twin
from tests.expiry.cases import DAY, NOW, R
from tests.expiry.test_twin import RELEASES, by_group, generated
from tests.expiry.versions import parsed

TIMES = ("as_of", "commit_timestamp", "expire_timestamp", "base_timestamp", "expires_at", "expires_at_if_empty")


def as_stored(row):
    """A row of the twin as it stands in a table."""
    return row | {name: to_datetime(row[name]) for name in TIMES if row.get(name) is not None}


def decided(tables, release, retention_ms):
    version, java = parsed(release)
    groups, members = by_group(tables["groups"]), by_group(tables["group_members"])
    pending = by_group(tables["pending_offsets"])
    rows = []
    for offset in tables["committed_offsets"]:
        key = (offset["offsets_partition"], offset["group_id"])
        its = [found.get(key, []) for found in (groups, members, pending)]
        answer = twin.judge_offset(offset, *its, NOW, retention_ms, version, java)
        named = zip(("reason", "base", "base_timestamp", "expires_at", "expires_at_if_empty"), answer, strict=True)
        decision = "expire" if twin.expires(answer[0]) else "keep"
        row = {**offset, **dict(named), "decision": decision, "as_of": NOW, "retention_ms": retention_ms, "audit_id": 7}
        rows.append(as_stored({name: row.get(name) for name in arrow_schema("offset_expiry").names}))
    return rows


def with_offsets_and_groups(decisions, stored):
    """As the command's query joins them."""
    slot = ("offsets_partition", "group_id", "topic", "partition")
    committed = {tuple(row[name] for name in slot): row for row in stored["committed_offsets"]}
    groups = {tuple(row[name] for name in slot[:2]): row for row in stored["groups"]}
    no_group = {"group_type": None, "state": None}
    return [
        row
        | {name: committed[key][name] for name in ("commit_timestamp", "expire_timestamp", "value_version")}
        | {name: groups.get(key[:2], no_group)[name] for name in no_group}
        for row in decisions
        for key in [tuple(row[name] for name in slot)]
    ]


@pytest.mark.parametrize("release", RELEASES)
def test_as_if_the_audit_had_judged_by_that_retention(release, monkeypatch):
    monkeypatch.setattr(test_twin, "GROUPS_PER_RELEASE", 400)
    tables, _ = generated(release)
    stored = {name: [as_stored(row) for row in rows] for name, rows in tables.items()}
    before = decided(tables, release, R)
    reasons = {row["reason"] for row in before}
    assert {"orphan", "within_retention", "retention_passed"} <= reasons
    asked = with_offsets_and_groups(before, stored)
    for retention_ms in (1, R - 1, R + 1, 14 * DAY, 36_500 * DAY):
        found = for_retention(asked, retention_ms=retention_ms, release_version=release)
        assert [{name: row[name] for name in before[0]} for row in found] == decided(tables, release, retention_ms)
