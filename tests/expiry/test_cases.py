"""Every named case; the rules that a release name selects, and milliseconds where no TIMESTAMP holds them."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from kgroups_spark.coordinator.releases import RELEASES, expiry_rules
from kgroups_spark.offsets.columns import milliseconds
from kgroups_spark.offsets.expiry import NONE, first_known, later, timestamp, timestamps
from kgroups_spark.tables.columns import TIMESTAMP
from tests.expiry.cases import CASES, DAY, NOW, R, ago, group, offset, simple
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
    assert all((row["decision"] == "expire") == row["reason"].endswith("_passed") for row in offsets)
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
        NOW - 8 * DAY,
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


# The rules in which a release differs from the one before it.
CHANGES = [
    ("0.8.2", "0.9.0", {"honours_expire_timestamp"}),
    ("1.1.1", "2.0.0", {"default_retention_ms"}),
    ("2.0.1", "2.1.0", {"is_strict", "depends_on_group", "v1_without_expire_timestamp_expired"}),
    ("2.1.1", "2.2.0", {"v1_without_expire_timestamp_expired"}),
    ("2.3.1", "2.4.0", {"subscription_states"}),
    *((before, after, {"subscription_states"}) for before, after in (("2.8.1", "2.8.2"), ("3.0.0", "3.0.1"))),
    ("3.1.0", "3.1.1", {"subscription_states"}),
    ("3.7.1", "3.7.1-java", {"open_transaction", "tombstone_at_generation_0"}),
    ("3.7.1-java", "3.8.0-java", {"open_transaction", "pending_transaction_spares"}),
    ("3.9.1-java", "4.0.0", {"share_offsets_end_clean_up"}),
    ("4.0.0", "4.0.1", {"open_transaction"}),
    ("4.0.2", "4.1.0", {"deletes_share_groups", "share_offsets_end_clean_up", "topology_unread_states"}),
    ("4.1.2", "4.2.0", {"topology_unread_states"}),
    ("4.3.1", "4.4.0", {"share_offsets_end_clean_up", "keeps_described_streams_groups"}),
]


@pytest.mark.parametrize(("before", "after", "changed"), CHANGES)
def test_a_release_changes_these_rules(before, after, changed):
    old, new = expiry_rules(before)._asdict(), expiry_rules(after)._asdict()
    assert {name for name in old if old[name] != new[name]} == changed


def test_there_is_a_release_with_each_set_of_rules():
    named = {*(case.release for case in CASES), *(each for pair in CHANGES for each in pair[:2])}
    assert {expiry_rules(each) for each in RELEASES} <= {expiry_rules(each) for each in named}


@pytest.mark.parametrize(
    ("release", "days"), [("0.8", 1), ("0.8.2.2", 1), ("1.1", 1), ("2.0", 7), ("3.9-java", 7), ("4.3", 7)]
)
def test_default_retention_became_a_week_with_2_0(release, days):
    assert expiry_rules(release).default_retention_ms == days * DAY


@pytest.mark.parametrize(
    ("bare", "last_patch"),
    [("4.0", "4.0.2"), ("2.1", "2.1.1"), ("2.8", "2.8.2"), ("3.0", "3.0.2"), ("3.1", "3.1.2"), ("v4.3", " 4.3 ")],
)
def test_without_a_patch_number_the_last_patch_release_is_meant(bare, last_patch):
    assert expiry_rules(bare) == expiry_rules(last_patch)


@pytest.mark.parametrize("release", ["", "x", "4", "4.5", "5.0", "0.7", "1.2", "2.9", "3.10", "3.6-java", "4.0-java"])
def test_an_unknown_release_is_refused(release):
    with pytest.raises(ValueError, match=r"is unknown: 0.8 to 0.11, .* 3.9-java"):
        expiry_rules(release)


LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)


@pytest.mark.parametrize("retention_ms", [1, 1 << 62, (1 << 63) - 1])
def test_a_retention_of_any_length_leads_to_a_later_time(retention_ms: int) -> None:
    assert later(np.array([NOW]), retention_ms)[0] > NOW
    assert later(np.array([NONE]), retention_ms).tolist() == [NONE]


def test_a_time_after_the_year_9999_is_its_last_millisecond() -> None:
    late = later(np.array([NOW, NONE]), (1 << 63) - 1)
    assert timestamps(late).to_pylist() == [LAST, None]
    assert timestamp(int(late[0])).as_py() == LAST


def test_times_of_a_table_are_rounded_down_to_milliseconds() -> None:
    column = pa.chunked_array([pa.array([1_999, None, -1], pa.int64()).cast(TIMESTAMP)])
    assert milliseconds(column).to_pylist() == [1, None, -1]


def test_the_first_column_with_a_time_counts() -> None:
    assert first_known(np.array([7, NONE, NONE]), np.array([8, 9, NONE])).tolist() == [7, 9, NONE]
