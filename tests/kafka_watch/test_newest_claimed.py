"""The newest release that we claim has nothing that we do not know: by its jars from Maven."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgroups_spark.coordinator.releases import NEWEST
from kgroups_spark.messages.schema import all_definitions
from tests.kafka_watch import __main__ as kafka_watch
from tests.kafka_watch.__main__ import main
from tests.kafka_watch.published import published_definitions
from tests.kafka_watch.release_jars import COORDINATORS, release_jars

RELEASE = "4.4.0"


def test_the_newest_claimed_release_has_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert RELEASE.startswith(f"{NEWEST}.")
    code = main(["--release", RELEASE])
    assert (code, capsys.readouterr().out.splitlines()[-1]) == (0, "no difference")


def test_all_three_logs_are_compared() -> None:
    topics = [each.topic for each in published_definitions(release_jars(RELEASE))]
    counts = {topic: topics.count(topic) for topic in COORDINATORS.values()}
    assert counts == {"__consumer_offsets": 44, "__share_group_state": 4, "__transaction_state": 2}
    assert topics.count(None) == 2


def test_a_tag_that_we_would_not_have_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_release_that_is_not_published(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def not_found(version: str) -> None:
        raise RuntimeError(f"Ivy's words\n\t\t:: org.apache.kafka#kafka-clients;{version}: not found\n\nmore of them")

    monkeypatch.setattr(kafka_watch, "release_jars", not_found)
    assert main(["--release", "9.9.9"]) == 2
    assert capsys.readouterr().err == (
        "kafka-watch: Kafka 9.9.9 cannot be read from Maven: org.apache.kafka#kafka-clients;9.9.9: not found\n"
    )
