"""The watch finds what Kafka has and we lack: each test takes it from our own definitions and defaults."""

from __future__ import annotations

import pytest

from kgroups_spark.audit.plan import DEFAULT_DELETE_RETENTION_MS
from kgroups_spark.coordinator.releases import NEWEST, expiry_rules
from kgroups_spark.coordinator.transaction_shard import MAX_TRANSACTION_TIMEOUT_MS
from kgroups_spark.findings.finding import MAX_MESSAGE_BYTES
from kgroups_spark.messages.schema import all_definitions
from kgroups_spark.replay.ranges import CHECK_MS
from tests.kafka_watch import __main__ as watch

OURS = all_definitions()
# The newest release that we claim.
RELEASE = "4.4.0"
TAG, COMMIT, MEMBER = "StreamsGroupMetadataValue", "OffsetCommitValue", "ConsumerGroupCurrentMemberAssignmentValue"
TAGGED = f"{TAG}, version 0, flexible"


def test_the_newest_claimed_release_has_no_difference(capsys):
    assert RELEASE.startswith(f"{NEWEST}.")
    code = watch.main(["--release", RELEASE])
    assert (code, capsys.readouterr().out.splitlines()[1:]) == (0, ["differences: 0"])
    topics = [each.topic for each in watch.published_definitions(RELEASE)]
    counts = {topic: topics.count(topic) for topic in (*watch.COORDINATORS.values(), None)}
    assert counts == {"__consumer_offsets": 44, "__share_group_state": 4, "__transaction_state": 2, None: 2}


def but_for(name, change):
    """The fields with those of that name changed (None: taken away), in structs, too."""

    def changed(fields):
        inner = (field._replace(fields=changed(field.fields)) for field in fields)
        return tuple(new for field in inner if (new := change(field) if field.name == name else field))

    return lambda definition: definition._replace(fields=changed(definition.fields))


@pytest.mark.parametrize(
    ("message", "change", "line"),
    [
        (TAG, lambda definition: definition._replace(api_key=99), f"{TAG} is of record type 17 in __consumer_offsets"),
        (COMMIT, lambda definition: definition._replace(versions=range(4)), f"{COMMIT}, version 4, flexible has "),
        (COMMIT, but_for("leaderEpoch", lambda field: None), f"{COMMIT}, version 3, not flexible has offset, lea"),
        (TAG, but_for("storedDescriptionTopologyEpoch", lambda field: field._replace(default=0)),
         f"{TAGGED}: storedDescriptionTopologyEpoch is tag 2 int32 = -1"),
        (TAG, but_for("failedDescriptionTopologyEpoch", lambda field: None),
         f"{TAGGED}: failedDescriptionTopologyEpoch is tag 3 int32 = -1"),
        (TAG, but_for("lastAssignmentConfigs", lambda field: field._replace(nullable=range(0))),
         f"{TAGGED}: lastAssignmentConfigs is array of nullable tag 1 struct"),
        (MEMBER, but_for("topicId", lambda field: field._replace(element="string")),
         f"{MEMBER}, version 0, flexible: assignedPartitions: topicId is uuid"),
    ],
)  # fmt: skip
def test_what_we_read_otherwise_is_printed(capsys, monkeypatch, message, change, line):
    changed = [change(each) if each.name == message else each for each in OURS]
    monkeypatch.setattr(watch, "all_definitions", lambda: changed)
    monkeypatch.setattr(watch, "published_definitions", lambda release: OURS)
    monkeypatch.setattr(watch, "published_settings", lambda release: defaults())
    assert watch.main(["--release", RELEASE]) == 1
    assert f"\n{line}" in capsys.readouterr().out


def defaults():
    return {name: known["default"] for name, known in watch.KNOWN_SETTINGS.items()}


def test_settings_that_are_new_changed_or_gone(monkeypatch):
    known = {"a": {"default": "1", "used": "expiry"}, "b": {"default": "2"}, "c": {"default": "3", "used": "x"}}
    monkeypatch.setattr(watch, "KNOWN_SETTINGS", known)
    assert watch.setting_differences({"a": "2", "d": "null"}) == [
        "a = 2 (settings.json: {'default': '1', 'used': 'expiry'})",
        "c = None (settings.json: {'default': '3', 'used': 'x'})",
        "d = null (settings.json: None)",
    ]
    assert watch.setting_differences({"a": "1", "c": "3"}) == []


def test_defaults_are_those_of_the_code():
    settings = defaults()
    assert int(settings["offsets.retention.minutes"]) * 60_000 == expiry_rules(NEWEST).default_retention_ms
    assert int(settings["offsets.retention.check.interval.ms"]) == CHECK_MS
    assert int(settings["log.cleaner.delete.retention.ms"]) == DEFAULT_DELETE_RETENTION_MS
    assert int(settings["max.message.bytes"]) == MAX_MESSAGE_BYTES
    assert int(settings["transaction.max.timeout.ms"]) == MAX_TRANSACTION_TIMEOUT_MS


def test_a_release_that_is_not_published(capsys, monkeypatch):
    def not_found(version):
        raise RuntimeError("org.apache.kafka#kafka_2.13;9.9.9: not found")

    monkeypatch.setattr(watch, "kafka_jars", not_found)
    assert watch.main(["--release", "9.9.9"]) == 2
    assert (
        "Kafka 9.9.9 cannot be read from Maven: org.apache.kafka#kafka_2.13;9.9.9: not found" in capsys.readouterr().err
    )
