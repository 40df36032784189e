"""The releases by name, and which record types they replay: case T41 and KIP-915."""

from __future__ import annotations

import re

import pytest

from kgroups_spark.coordinator.releases import NEWEST, RELEASES, release
from tests.coordinator.records import Log, classic, classic_member, epoch


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("4.4.0", "4.4"),
        ("4.3.1", "4.3"),
        ("4.2.0", "4.2.0"),
        ("4.0.2", "4.0"),
        ("4.0.0", "4.0.0"),
        ("3.9.2", "3.9"),
        ("3.9.1-java", "3.9-java"),
        ("3.7-java", "3.7-java"),
        ("3.4.1", "3.4"),
        ("3.4.0", "3.4.0"),
        ("2.6.0", "2.6.0"),
        ("1.0.0", "1.0.0"),
        ("0.11.0.3", "0.11"),
        ("0.8.2.2", "0.8"),
    ],
)
def test_a_version_names_the_rules_of_its_release(asked, name):
    assert release(asked).name == name


@pytest.mark.parametrize("asked", ["", "four", "kafka-3.9"])
def test_an_unknown_release_is_refused_with_the_known_ones(asked):
    with pytest.raises(ValueError, match=r"is unknown; known are 4\.4, 4\.3"):
        release(asked)


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("43", "4.3"),
        ("2.9", "3.9"),
        ("4.3-java", "3.9-java"),
        ("3,9", "3.9"),
        ("3.9java", "3.9-java"),
    ],
)
def test_a_mistyped_release_suggests_the_nearest(asked, nearest):
    with pytest.raises(ValueError, match=f"is unknown; did you mean {nearest}"):
        release(asked)


@pytest.mark.parametrize("asked", ["4.5", "v4.10.1", "5.0", "5.0-java"])
def test_a_release_newer_than_all_is_refused_with_the_newest(asked):
    """Its name is near "4.0" and "2.0", whose rules are not like its own."""
    with pytest.raises(ValueError, match=rf"is unknown; the newest known one is {re.escape(NEWEST)}$"):
        release(asked)


def test_bare_3_7_to_3_9_mean_the_scala_coordinator():
    assert {release(v).coordinator for v in ("3.7", "3.8", "3.9", "0.8")} == {"scala"}
    assert {release(v).coordinator for v in ("3.7-java", "3.8-java", "3.9-java", "4.0", NEWEST)} == {"java"}
    assert all(rules.name == name for name, rules in RELEASES.items())


@pytest.mark.parametrize(("version", "record_type"), [("4.3", 99), ("4.3", 18), ("4.3", 9), ("4.0", 17), ("3.9", 3)])
def test_t41_unknown_types_are_skipped_even_as_tombstones(version, record_type):
    log = Log(version).record(record_type, None).record(record_type, epoch(1, topics=[]))
    assert (log.failed, log.states()) == ({}, {})


def test_t41_before_kip_915_types_from_3_on_fail():
    assert Log("3.3").record(3, epoch(1)).failed.keys() == {0}
    assert release("3.4.0").fails_to_read(3, None)
    assert not release("3.4.1").fails_to_read(3, None)


@pytest.mark.parametrize(
    ("version", "record_type", "value_version", "fails"),
    [
        ("4.3", 1, 4, False),
        ("4.3", 1, 5, True),
        ("4.3", 1, -1, True),
        ("4.3", 0, 0, False),
        ("4.3", 0, 1, True),
        ("4.0", 0, 4, False),
        ("4.3", 2, 4, False),
        ("4.3", 3, 1, True),
        ("4.3", 99, 0, False),
        ("2.3", 2, 3, False),
        ("2.2", 2, 3, True),
        ("2.0", 1, 2, True),
        ("0.10.1", 2, 1, False),
        ("0.10.0", 2, 1, True),
        ("4.3", 2, None, False),
    ],
)
def test_each_release_reads_its_value_versions(version, record_type, value_version, fails):
    assert release(version).fails_to_read(record_type, value_version) is fails


@pytest.mark.parametrize(("version", "newest"), [("0.10.0", 0), ("2.0", 1), ("2.2", 2), ("3.4.0", 3)])
def test_a_group_metadata_value_of_a_newer_version_fails_and_changes_nothing(version, newest):
    snapshot = {"record_type": 2, "group_id": "g", "value": classic()}
    log = Log(version).append("group_record", value_version=newest, **snapshot)
    assert (log.failed, log.states()) == ({}, {"g": "classic Empty"})
    of_members = {**snapshot, "value": classic([classic_member("m1")])}
    log.append("group_record", value_version=newest + 1, **of_members)
    assert (log.failed.keys(), log.states()) == ({1}, {"g": "classic Empty"})
    tombstone = {**snapshot, "value": None}
    assert log.append("group_record", **tombstone).states() == {}


def test_t58_early_access_layouts_are_read_by_their_release_alone():
    assert [release(v).reads_layout("4.0") for v in ("4.0", "4.0.0", "4.1", "3.9-java")] == [True, True, False, False]
    assert [release(v).reads_layout("3.7") for v in ("3.7-java", "3.8-java", "4.3")] == [True, False, False]
    assert all(release(v).reads_layout(layout) for v in ("4.3", "3.7-java") for layout in ("", "?3.7"))
