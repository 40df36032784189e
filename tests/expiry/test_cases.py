"""Every named case, by the vectorised rules and by their twin in plain Python."""

import pytest

from kgroups_spark.coordinator.releases import expiry_rules
from tests.expiry import twin
from tests.expiry.cases import CASES, NOW, R, ago, group, offset, simple
from tests.expiry.frames import AUDIT_ID, clean_up

ids = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def test_case_names_are_unique():
    assert len({case.name for case in CASES}) == len(CASES)


def by_topic(case, judged):
    """Expected answers may be keyed by topic alone where a topic has one partition."""
    return {key if key in case.expected else key[0]: answer for key, answer in judged.items()}


@pytest.fixture(scope="module")
def judged():
    """(offset rows, group rows) of each case by its name; one clean-up for all releases with the same rules."""
    by_rules = {}
    for case in CASES:
        by_rules.setdefault(expiry_rules(case.release), []).append(case)
    result = {case.name: ([], []) for case in CASES}
    for cases in by_rules.values():
        tables = {}
        for case in cases:
            for name, rows in case.tables().items():
                tables.setdefault(name, []).extend(rows)
        held = set().union(*(case.held_groups() for case in cases))
        both = clean_up(tables, as_of=NOW, retention_ms=R, release_version=cases[0].release, held_groups=held)
        for place, rows in enumerate(both):
            for row in rows:
                result[row["group_id"]][place].append(row)
    return result


@ids
def test_the_rules_decide_as_expected(case, judged):
    offsets, groups = judged[case.name]
    columns = ("reason", "base", "expires_at", "expires_at_if_empty")
    got = {(row["topic"], row["partition"]): tuple(row[name] for name in columns) for row in offsets}
    assert by_topic(case, got) == case.expected
    assert all(row["decision"] == ("expire" if twin.expires(row["reason"]) else "keep") for row in offsets)
    columns = ("reason", "deletes_at", "writes_tombstone")
    assert [tuple(row[name] for name in columns) for row in groups] == [case.expected_group] * (case.group is not None)
    assert all(row["decision"] == ("delete" if row["reason"] == "empty_and_nothing_left" else "keep") for row in groups)


def test_a_row_says_what_was_judged_and_by_which_audit(judged):
    (offset,), (group,) = judged["T10 committed yesterday, Empty for 8 days"]
    assert {key: offset[key] for key in ("audit_id", "offsets_partition", "as_of", "retention_ms")} == {
        "audit_id": AUDIT_ID,
        "offsets_partition": 3,
        "as_of": NOW,
        "retention_ms": R,
    }
    assert (offset["committed_offset"], offset["log_offset"], offset["base_timestamp"]) == (
        40,
        11,
        NOW - 8 * 86_400_000,
    )
    assert (group["audit_id"], group["as_of"], group["retention_ms"]) == (AUDIT_ID, NOW, R)
    assert (group["group_type"], group["state"]) == ("classic", "Empty")


CLEAN_UPS = [
    # The release, the share group's offsets, the other group's partition; then the reasons of the other group's offset
    # and of the group itself.
    ("4.4", ["t"], 0, ("clean_up_fails", "offsets_left")),
    ("4.0", ["t"], 0, ("clean_up_fails", "offsets_left")),
    ("4.3", ["t"], 0, ("retention_passed", "empty_and_nothing_left")),  # a release that looks at the type first
    ("4.4", [], 0, ("retention_passed", "empty_and_nothing_left")),  # no offset strayed into the share group
    ("4.4", ["t"], 1, ("retention_passed", "empty_and_nothing_left")),  # another offsets partition
]


@pytest.mark.parametrize(("release", "of_share_group", "partition", "reasons"), CLEAN_UPS)
def test_offsets_of_a_share_group_end_the_clean_up_of_their_partition_alone(
    release, of_share_group, partition, reasons
):
    share, other = ({"offsets_partition": n, "group_id": name} for n, name in ((0, "share"), (partition, "other")))
    tables = {
        "groups": [share | group("share", "Empty"), other | simple()],
        "group_members": [],
        "committed_offsets": [
            *(share | offset(topic, ago(8)) for topic in of_share_group),
            other | offset("t", ago(8)),
        ],
        "pending_offsets": [],
    }
    both = clean_up(tables, as_of=NOW, retention_ms=R, release_version=release, held_groups=set())
    assert tuple(row["reason"] for rows in both for row in rows if row["group_id"] == "other") == reasons
    assert [row["reason"] for row in both[0] if row["group_id"] == "share"] == ["share_group"] * len(of_share_group)
