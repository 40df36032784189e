"""The release whose rules a cluster's brokers follow, as far as they reveal it: data and pure functions.

No request asks a broker for its version. Its features show the minor release, but not the patch:

    features   the newest metadata.version that the *software* supports (KRaft, 3.3 and newer), not the finalized one,
               which stays lower until it is raised. MetadataVersion.java, LATEST_PRODUCTION of each release
    requests   the newest version of some request: with ZooKeeper, before 3.3, and if the feature is not Kafka's own

3.7 to 3.9 have both coordinators, and so has 4.0: KafkaConfig.isNewGroupCoordinatorEnabled (3.7 to 4.0). With
ZooKeeper, KafkaServer always starts the Scala coordinator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kgroups_spark.coordinator.releases import NEWEST, RELEASES

METADATA_VERSION = "metadata.version"
GROUP_VERSION = "group.version"
NEW_COORDINATOR = "group.coordinator.new.enable"
REBALANCE_PROTOCOLS = "group.coordinator.rebalance.protocols"

# The newest metadata.version that a release supports without unstable.feature.versions.enable.
NEWEST_METADATA_VERSION = {
    "3.3": 7,
    "3.4": 8,
    "3.5": 11,
    "3.6": 14,
    "3.7": 19,
    "3.8": 20,
    "3.9": 21,
    "4.0": 25,
    "4.1": 27,
    "4.2": 29,
    "4.3": 30,
    "4.4": 33,
}

PRODUCE, FETCH, LIST_OFFSETS, METADATA, LEADER_AND_ISR, OFFSET_FETCH, JOIN_GROUP = 0, 1, 2, 3, 4, 9, 11
ADD_PARTITIONS_TO_TXN, TXN_OFFSET_COMMIT, DESCRIBE_ACLS, DESCRIBE_LOG_DIRS, DESCRIBE_CLIENT_QUOTAS = 24, 28, 29, 35, 48
API_VERSIONS = 18

# A version of a request that came with the release, the newest release first. Tested against what brokers answered. A
# KRaft broker does not report LeaderAndIsr, but its metadata.version.
CAME_WITH = (
    ("4.4", TXN_OFFSET_COMMIT, 6),
    ("4.3", DESCRIBE_LOG_DIRS, 5),
    ("4.2", LIST_OFFSETS, 11),
    ("4.1", PRODUCE, 13),
    ("4.0", LIST_OFFSETS, 10),
    ("3.9", FETCH, 17),
    ("3.8", PRODUCE, 11),
    ("3.7", FETCH, 16),
    ("3.6", ADD_PARTITIONS_TO_TXN, 4),
    ("3.5", FETCH, 15),
    ("3.4", LEADER_AND_ISR, 7),
    ("3.3", DESCRIBE_ACLS, 3),
    ("3.2", JOIN_GROUP, 9),
    ("3.1", FETCH, 13),
    ("3.0", LIST_OFFSETS, 7),
    ("2.8", PRODUCE, 9),
    ("2.7", FETCH, 12),
    ("2.6", DESCRIBE_CLIENT_QUOTAS, 0),
    ("2.5", DESCRIBE_ACLS, 2),
    ("2.4", PRODUCE, 8),
    ("2.3", FETCH, 11),
    ("2.2", LIST_OFFSETS, 5),
    ("2.1", FETCH, 10),
    ("2.0", FETCH, 8),
    ("1.1", FETCH, 7),
    ("1.0", METADATA, 5),
    ("0.11", METADATA, 4),
    ("0.10.2", OFFSET_FETCH, 2),
    ("0.10.1", METADATA, 2),
    ("0.10.0", API_VERSIONS, 0),
)

WITH_BOTH_COORDINATORS = ("3.7", "3.8", "3.9", "4.0")


@dataclass(frozen=True)
class Broker:
    """A broker's own description: newest supported and finalized level by feature, newest version by request.
    `configs`: NEW_COORDINATOR and REBALANCE_PROTOCOLS, if it reports them; None: we may not ask."""

    supported: Mapping[str, int] = field(default_factory=dict)
    finalized: Mapping[str, int] = field(default_factory=dict)
    requests: Mapping[int, int] = field(default_factory=dict)
    configs: Mapping[str, str] | None = None


class Reported(NamedTuple):
    """A release, as --release-version names it (None: unknown), and how it was found."""

    release: str | None
    evidence: str


def release_of(broker: Broker) -> Reported:
    minor, evidence = _software(broker)
    if minor not in WITH_BOTH_COORDINATORS:
        return Reported(minor, evidence)
    is_java, why = _runs_java(broker, minor)
    evidence += f", with the {'Java' if is_java else 'Scala'} coordinator ({why})"
    if minor == "4.0":
        # Its Scala coordinator loads as 3.9's (GroupMetadataManager.scala), and has no rules of its own.
        return Reported("4.0" if is_java else "3.9", evidence)
    return Reported(f"{minor}-java" if is_java else minor, evidence)


def release_of_brokers(brokers: Mapping[int, Broker]) -> Reported:
    """The one release whose rules to follow if these brokers, by node id, load offsets partitions: the oldest. In a
    rolling upgrade partitions may move back to it, so rules and saved state change once, at the end."""
    reported = {node: release_of(broker) for node, broker in sorted(brokers.items())}
    known = {each.release: each for each in reported.values() if each.release is not None}
    if not known:
        evidence = "; ".join(dict.fromkeys(each.evidence for each in reported.values()))
        return Reported(None, f"the release is unknown: {evidence or 'no broker has answered'}")
    oldest = min(known, key=_age)
    evidence = f"release {oldest}: {known[oldest].evidence}"
    if len({each.release for each in reported.values()}) > 1:
        of = "; ".join(f"broker {node}: {each.release or 'unknown'}" for node, each in reported.items())
        evidence += f"; the brokers differ ({of}: an upgrade in progress?), so the rules of the oldest are used"
    return Reported(oldest, evidence + _patches(oldest))


def _software(broker: Broker) -> tuple[str | None, str]:
    """The minor release of the broker's software."""
    level = broker.supported.get(METADATA_VERSION)
    if level is not None:
        for name, newest_level in NEWEST_METADATA_VERSION.items():
            if level <= newest_level:
                return name, f"the software supports metadata.version {level}, as Kafka {name} does"
    minor = next((name for name, key, version in CAME_WITH if broker.requests.get(key, -1) >= version), None)
    if minor is None:
        return None, "the broker reports neither its features nor request versions that we know"
    if level is None:
        return minor, f"the software supports the requests of Kafka {minor}"
    if minor == NEWEST:
        return minor, f"the software supports metadata.version {level}: newer than Kafka {NEWEST}, the newest we know"
    return (
        minor,
        f"the software supports the requests of Kafka {minor}; its metadata.version {level} is not one of Kafka's",
    )


def _runs_java(broker: Broker, minor: str) -> tuple[bool, str]:
    """Whether it runs the Java coordinator, and the evidence."""
    if METADATA_VERSION not in broker.supported:
        return False, "as always with ZooKeeper"
    by_default = minor == "4.0"
    if broker.configs is None:
        if not by_default and broker.finalized.get(GROUP_VERSION, 0) > 0:
            return True, f"{GROUP_VERSION} is finalized; its configuration may not be asked for"
        return by_default, "its default; the configuration may not be asked for"
    enabled = broker.configs.get(NEW_COORDINATOR, "").strip().lower()
    if enabled == "true" or (enabled == "false" and by_default):
        return enabled == "true", f"{NEW_COORDINATOR}={enabled}"
    protocols = broker.configs.get(REBALANCE_PROTOCOLS, "")
    # Before 4.0 the consumer protocol implies its coordinator.
    if not by_default and "consumer" in (each.strip().lower() for each in protocols.split(",")):
        return True, f"{REBALANCE_PROTOCOLS}={protocols}"
    return by_default, "its default"


def _age(release: str) -> tuple[list[int], bool]:
    numbers, _, coordinator = release.partition("-")
    return [int(number) for number in numbers.split(".")], bool(coordinator)


def _patches(release: str) -> str:
    """The notes where the patch release is unknown and other rules would apply."""
    others = [name for name in RELEASES if name.startswith(f"{release}.")]
    if not others:
        return ""
    return (
        f"; brokers do not report their patch release: the rules of the newest {release} are used; those of "
        f"{' and '.join(sorted(others))} differ (--release-version)"
    )
