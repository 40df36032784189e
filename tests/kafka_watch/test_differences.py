"""The watch finds what Kafka has and we lack: each test takes it from our own definitions and defaults."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgroups_spark.audit.plan import DEFAULT_DELETE_RETENTION_MS
from kgroups_spark.coordinator.releases import NEWEST, expiry_rules
from kgroups_spark.coordinator.transaction_shard import MAX_TRANSACTION_TIMEOUT_MS
from kgroups_spark.findings.finding import MAX_MESSAGE_BYTES
from kgroups_spark.messages.schema import all_definitions
from kgroups_spark.replay.ranges import CHECK_MS
from tests.kafka_watch import __main__ as kafka_watch
from tests.kafka_watch.__main__ import main
from tests.kafka_watch.differences import Difference, definition_differences
from tests.kafka_watch.release_jars import COORDINATORS, published_definitions, release_jars
from tests.kafka_watch.settings import expected_settings, setting_differences

OURS = all_definitions()
KAFKAS = [each for each in OURS if not each.layout]
STREAMS = "__consumer_offsets, record type 17, StreamsGroupMetadataValue"
MEMBER = "__consumer_offsets, record type 8, ConsumerGroupCurrentMemberAssignmentValue"
COMMIT = "__consumer_offsets, record type 1, OffsetCommitValue"


def found(of, change):
    """The differences when our definition `of` is changed (None: taken away) and Kafka's are ours as they are."""
    ours = [changed for each in OURS if (changed := change(each) if each.name == of else each)]
    return [(each.subject, each.text) for each in definition_differences(KAFKAS, ours)]


def fields(change):
    """Changes all fields of a definition, those of structs, too (None: taken away)."""

    def changed(old):
        inner = (replace(field, fields=changed(field.fields)) for field in old)
        return tuple(new for field in inner if (new := change(field)))

    return lambda definition: replace(definition, fields=changed(definition.fields))


def only(name, change):
    return fields(lambda field: change(field) if field.name == name else field)


def test_definitions_do_not_differ_from_themselves():
    assert definition_differences(KAFKAS, OURS) == []


def test_a_record_type_that_we_do_not_have():
    assert found("StreamsGroupMetadataValue", lambda definition: None) == [(STREAMS, "is not decoded")]


def test_a_version_that_we_do_not_have():
    assert found("OffsetCommitValue", lambda definition: replace(definition, versions=range(3))) == [
        (COMMIT, "version 3-4: is not decoded")
    ]


@pytest.mark.parametrize(
    ("message", "field", "change", "subject", "text"),
    [
        ("StreamsGroupMetadataValue", "failedDescriptionTopologyEpoch", lambda field: None, STREAMS,
         "version 0: failedDescriptionTopologyEpoch, int32, tag 3, is not decoded"),
        ("OffsetCommitValue", "leaderEpoch", lambda field: None, COMMIT,
         "version 3-4: leaderEpoch, int32, is not decoded"),
        ("ConsumerGroupCurrentMemberAssignmentValue", "topicId", lambda field: replace(field, element="string"), MEMBER,
         "version 0: assignedPartitions.topicId is uuid; we read string"),
        ("StreamsGroupMetadataValue", "failedDescriptionTopologyEpoch", lambda field: replace(field, tag=4), STREAMS,
         "version 0: failedDescriptionTopologyEpoch is int32, tag 3; we read int32, tag 4"),
        ("StreamsGroupMetadataValue", "lastAssignmentConfigs", lambda field: replace(field, nullable=range(0)), STREAMS,
         "version 0: lastAssignmentConfigs is array of struct, nullable, tag 1; we read array of struct, tag 1"),
        ("StreamsGroupMetadataValue", "storedDescriptionTopologyEpoch", lambda field: replace(field, default=0),
         STREAMS, "the default of storedDescriptionTopologyEpoch is -1; ours is 0"),
    ],
)  # fmt: skip
def test_a_field_that_we_read_differently(message, field, change, subject, text):
    assert (subject, text) in found(message, only(field, change))


def test_settings_that_are_new_changed_or_gone():
    expected = {"a": {"default": "1", "used": "expiry"}, "b": {"default": "2"}, "c": {"default": "3", "used": "x"}}
    assert setting_differences({"a": "2", "b": "2", "d": "4"}, expected) == [
        Difference("a", "default 1, now 2; used by expiry"),
        Difference("c", "is gone; used by x"),
        Difference("d", "is new, its default 4: does it change what is kept?"),
    ]
    assert setting_differences({"a": "1", "c": "3"}, expected) == []


def test_defaults_are_those_of_the_code():
    settings = {name: each["default"] for name, each in expected_settings().items()}
    assert int(settings["offsets.retention.minutes"]) * 60_000 == expiry_rules(NEWEST).default_retention_ms
    assert int(settings["offsets.retention.check.interval.ms"]) == CHECK_MS
    assert int(settings["log.cleaner.delete.retention.ms"]) == DEFAULT_DELETE_RETENTION_MS
    assert int(settings["max.message.bytes"]) == MAX_MESSAGE_BYTES
    assert int(settings["transaction.max.timeout.ms"]) == MAX_TRANSACTION_TIMEOUT_MS


# The newest release that we claim has nothing that we do not know: by its jars from Maven.
RELEASE = "4.4.0"


def test_the_newest_claimed_release_has_no_difference(capsys):
    assert RELEASE.startswith(f"{NEWEST}.")
    code = main(["--release", RELEASE])
    assert (code, capsys.readouterr().out.splitlines()[-1]) == (0, "no difference")


def test_all_three_logs_are_compared():
    topics = [each.topic for each in published_definitions(release_jars(RELEASE))]
    counts = {topic: topics.count(topic) for topic in COORDINATORS.values()}
    assert counts == {"__consumer_offsets": 44, "__share_group_state": 4, "__transaction_state": 2}
    assert topics.count(None) == 2


def test_a_tag_that_we_would_not_have_is_named(capsys, monkeypatch):
    """As on the day before 4.4 was claimed."""
    without = [
        replace(each, fields=tuple(field for field in each.fields if "DescriptionTopologyEpoch" not in field.name))
        for each in all_definitions()
    ]
    monkeypatch.setattr(kafka_watch, "all_definitions", lambda: without)
    monkeypatch.setattr(kafka_watch, "published_settings", lambda release: {})
    monkeypatch.setattr(kafka_watch, "expected_settings", dict)
    assert main(["--release", RELEASE]) == 1
    printed = capsys.readouterr().out
    for tag, name in ((2, "storedDescriptionTopologyEpoch"), (3, "failedDescriptionTopologyEpoch")):
        assert f"  version 0: {name}, int32, tag {tag}, is not decoded\n" in printed
    assert printed.endswith("2 differences\n")


def test_a_release_that_is_not_published(capsys, monkeypatch):
    def not_found(version):
        raise RuntimeError(f"Ivy's words\n\t\t:: org.apache.kafka#kafka-clients;{version}: not found\n\nmore of them")

    monkeypatch.setattr(kafka_watch, "release_jars", not_found)
    assert main(["--release", "9.9.9"]) == 2
    assert capsys.readouterr().err == (
        "kafka-watch: Kafka 9.9.9 cannot be read from Maven: org.apache.kafka#kafka-clients;9.9.9: not found\n"
    )
