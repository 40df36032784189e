"""The release whose rules brokers follow, found from what they say of themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from kgroups_spark.coordinator.broker_release import (
    METADATA_VERSION,
    NEWEST_METADATA_VERSION,
    TXN_OFFSET_COMMIT,
    Broker,
    release_of,
    release_of_brokers,
)
from kgroups_spark.coordinator.releases import NEWEST, RELEASES, expiry_rules, release

# Answers of real brokers to ApiVersions: kafka-python has those of every release since 0.10, up to 3.9 with ZooKeeper.
ANSWERED = {version: answer for version, answer in BROKER_API_VERSIONS.items() if version >= (0, 10)}


def requests(*version):
    return {key: newest for key, (_, newest) in BROKER_API_VERSIONS[version].items()}


def kraft(level, version=(3, 9), configs=None, **more):
    finalized = {name.replace("_", "."): value for name, value in more.items()}
    return Broker({METADATA_VERSION: level, "kraft.version": 1}, finalized, requests(*version), configs)


@pytest.mark.parametrize("version", ANSWERED, ids=lambda version: ".".join(map(str, version)))
def test_the_release_of_a_broker_without_features_follows_from_its_requests(version):
    reported = release_of(Broker(requests=requests(*version), configs={}))
    name = ".".join(map(str, version))
    assert reported.release == (name if name != "4.0" else "3.9")
    assert f"supports the requests of Kafka {name}" in reported.evidence


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        *((newest, minor) for minor, newest in NEWEST_METADATA_VERSION.items()),
        # Between two releases: software on its way to the second.
        (9, "3.5"),
        (15, "3.7"),
        (22, "4.0"),
        (26, "4.1"),
        (28, "4.2"),
    ],
)
def test_the_release_of_a_kraft_broker_follows_from_the_metadata_version_that_it_supports(level, expected):
    reported = release_of(kraft(level, configs={}))
    assert reported.release == expected
    assert f"metadata.version {level}, as Kafka {expected} does" in reported.evidence


def test_a_newer_broker_has_the_rules_of_the_newest_release_known_and_says_so():
    newest = kraft(max(NEWEST_METADATA_VERSION.values()) + 1, (4, 3))
    reported = release_of(replace(newest, requests={**newest.requests, TXN_OFFSET_COMMIT: 6}))
    assert reported.release == NEWEST
    assert reported.evidence.endswith(f"metadata.version 34: newer than Kafka {NEWEST}, the newest we know")


def test_with_metadata_versions_that_are_not_kafkas_the_release_follows_from_requests():
    reported = release_of(kraft(121, (3, 6)))
    assert reported.release == "3.6"
    assert "121 is not one of Kafka's" in reported.evidence


JAVA = {"group.coordinator.new.enable": "true"}
SCALA = {"group.coordinator.new.enable": "false"}
BY_PROTOCOL = {"group.coordinator.rebalance.protocols": "classic, consumer"}
CLASSIC = {"group.coordinator.rebalance.protocols": "classic"}


@pytest.mark.parametrize(
    ("level", "configs", "finalized", "expected"),
    [
        (21, {}, {}, "3.9"),
        (21, CLASSIC, {}, "3.9"),
        (21, JAVA, {}, "3.9-java"),
        (20, JAVA, {}, "3.8-java"),
        (19, BY_PROTOCOL, {}, "3.7-java"),
        # One of the two is enough, before 4.0.
        (21, SCALA | BY_PROTOCOL, {}, "3.9-java"),
        (21, JAVA | CLASSIC, {}, "3.9-java"),
        (21, CLASSIC, {"group_version": 1}, "3.9"),
        # 3.6 has no other coordinator.
        (14, JAVA, {}, "3.6"),
        (25, {}, {}, "4.0"),
        (25, CLASSIC, {}, "4.0"),
        (25, JAVA, {}, "4.0"),
        (25, SCALA, {}, "3.9"),
        (27, SCALA, {}, "4.1"),
        # Not allowed to ask.
        (21, None, {}, "3.9"),
        (21, None, {"group_version": 0}, "3.9"),
        (21, None, {"group_version": 1}, "3.9-java"),
        (25, None, {}, "4.0"),
    ],
)
def test_which_coordinator_runs_is_configured(level, configs, finalized, expected):
    reported = release_of(kraft(level, configs=configs, **finalized))
    assert reported.release == expected
    may_not = "may not be asked for" in reported.evidence
    assert may_not == (configs is None)


def test_with_zookeeper_the_coordinator_is_scalas_whatever_is_configured():
    assert release_of(Broker(requests=requests(3, 9), configs=JAVA)).release == "3.9"


def test_a_broker_without_known_features_or_requests():
    assert release_of(Broker()).release is None
    reported = release_of_brokers({1: Broker()})
    assert (reported.release, reported.evidence) == (
        None,
        "the release is unknown: the broker reports neither its features nor request versions that we know",
    )
    assert release_of_brokers({}).evidence == "the release is unknown: no broker has answered"


def test_the_oldest_of_different_brokers_counts():
    reported = release_of_brokers({1: kraft(30), 2: kraft(29), 3: Broker()})
    assert reported.release == "4.2"
    assert "(broker 1: 4.3; broker 2: 4.2; broker 3: unknown: an upgrade in progress?)" in reported.evidence
    assert release_of_brokers({1: kraft(25), 2: Broker(requests=requests(0, 11))}).release == "0.11"
    # A new coordinator is rolled out broker by broker, too.
    assert release_of_brokers({1: kraft(21, configs=JAVA), 2: kraft(21, configs={})}).release == "3.9"
    assert release_of_brokers({1: kraft(25), 2: kraft(21, configs=JAVA)}).release == "3.9-java"


@pytest.mark.parametrize(
    ("level", "others"),
    [
        (30, None),
        (29, "4.2.0"),
        (27, "4.1.0 and 4.1.1"),
        (25, "4.0.0 and 4.0.1"),
        (21, None),
        (8, "3.4.0"),
    ],
)
def test_an_unknown_patch_release_is_noted_where_it_would_matter(level, others):
    evidence = release_of_brokers({1: kraft(level, configs={})}).evidence
    assert ("patch" in evidence) == (others is not None)
    if others:
        assert f"those of {others} differ (--release-version)" in evidence


def test_every_release_that_can_be_reported_has_its_rules():
    reported = {
        release_of(kraft(level, configs=given)).release for level in range(1, 35) for given in (JAVA, SCALA, {})
    }
    reported |= {release_of(Broker(requests=requests(*version))).release for version in ANSWERED}
    for name in reported:
        assert name in RELEASES
        assert release(str(name)).name == name
        assert expiry_rules(str(name)).default_retention_ms > 0
