"""Audits of live clusters as tests run them: by themselves, or as the command."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kgroups_spark.audit.run import AuditOptions, AuditSummary, run_audit
from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.cluster.cluster import Cluster
from kgroups_spark.cluster.live_log import ONE_BATCH
from kgroups_spark.cluster.requests import FetchAnswer
from tests.broker.brokers import Broker, until
from tests.broker.members import SILENT, Member, Transactions
from tests.nights.lakes import COMPARED, contents, rows

# A small log that takes several fetches to read, and what is compared of audits of it.
# A coordinator that has just started, or a topic that has just been made, is not known everywhere.
NOT_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}

OFFSETS_TOPIC = "__consumer_offsets"
# The most that a broker returns to one fetch: a partition of the log then takes five fetches.
SMALL_ANSWERS = {"fetch.max.bytes": "16384"}
TOPIC, PARTITIONS = "orders", 8
# A few for each offsets partition.
GROUPS = [f"group-{number}" for number in range(8)]
# A log alone names no topic that has not been committed by id, no topic's ends and nothing that brokers are set to.
ONLY_A_CLUSTER_SAYS = {"cluster_facts", "topics", "topic_offsets"}


def make_topic(
    address: str,
    name: str = TOPIC,
    partitions: int = PARTITIONS,
    *,
    replicas: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    admin = AdminClient({"bootstrap.servers": address}, logger=SILENT)
    admin.create_topics([NewTopic(name, partitions, replicas, config=dict(config or {}))])[name].result(30)
    # The next commit may reach a broker that has not heard of the topic yet.
    until(f"{name} is there", lambda: name in admin.list_topics(timeout=30).topics)


def commit(address: str, group: str, offset: int, times: int = 1) -> None:
    """Commits offsets of all partitions of the topic, kept apart by partition."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group}, logger=SILENT)
    for time in range(times):
        metadata = f"{time} ".ljust(1000, "m")
        offsets = [TopicPartition(TOPIC, p, offset + time + p, metadata) for p in range(PARTITIONS)]
        until(f"{group} has committed", lambda offsets=offsets: is_committed(consumer, offsets))  # type: ignore[misc]
    consumer.close()


def is_committed(consumer: Consumer, offsets: list[TopicPartition]) -> bool:
    try:
        return not any(each.error for each in consumer.commit(offsets=offsets, asynchronous=False) or ())
    except KafkaException as error:
        if error.args[0].code() not in NOT_YET:
            raise
        return False


def commit_all(address: str, offset: int, times: int = 5) -> None:
    for group in GROUPS:
        commit(address, group, offset, times)


def fill(address: str, replicas: int = 1) -> None:
    """The topic, commits of every group, transactions that committed, aborted and stay open, a member that came and
    left."""
    make_topic(address, replicas=replicas)
    commit_all(address, 100)
    transactions = Transactions(address, "mover")
    for ended in (transactions.commit, transactions.abort, None):
        transactions.begin()
        for group in GROUPS:
            transactions.send(group, {(TOPIC, 0): 1000})
        if ended is not None:
            ended()
    member = Member(address, "member", [TOPIC])
    until("a member has partitions", lambda: len(member.assignment()) == PARTITIONS)
    member.commit({(TOPIC, 0): 7})
    member.close()


def copy_of_log(brokers: Iterable[Broker], target: Path) -> Path:
    """Copies the segments of each partition's longest replica."""
    for broker in brokers:
        for folder in broker.data.glob(f"{OFFSETS_TOPIC}-*"):
            if _size(folder) > _size(target / folder.name):
                shutil.rmtree(target / folder.name, ignore_errors=True)
                shutil.copytree(folder, target / folder.name, ignore=shutil.ignore_patterns("*index"))
    return target


def _size(folder: Path) -> int:
    return sum(segment.stat().st_size for segment in folder.glob("*.log"))


def of_the_log(lake: Path) -> dict[str, list[str]]:
    """All that audits of a live cluster and of a copy of its log have in common, as text."""
    return contents(lake, [name for name in COMPARED if name not in ONLY_A_CLUSTER_SAYS])


# By when expiry is judged, so that it does not matter when audits run; long before anything expires.
AS_OF = 1_700_000_000_000
USUAL: dict[str, Any] = {"as_of": AS_OF, "include": ()}


def live_audit(session: Any, lake: Path, address: str, **options: Any) -> AuditSummary:
    """An audit of a cluster without protection, of __consumer_offsets alone; `properties` for its client."""
    client = client_properties(address, options.pop("properties", {}))
    return run_audit(session, AuditOptions(str(lake), client=client, **{**USUAL, **options}))


def copy_audit(session: Any, lake: Path, log: Path, **options: Any) -> dict[str, list[str]]:
    """The tables after an audit of a copy of the log, as `of_the_log` gives them."""
    options = {"as_of": AS_OF, "release_version": "4.3", **options}
    run_audit(session, AuditOptions(str(lake), [str(log)], **options))
    return of_the_log(lake)


@contextmanager
def at_fetch(number: int, act: Callable[[], object], partition: int | None = None) -> Iterator[None]:
    """Acts before the `number`-th fetch of tasks in this process from this partition (None: from any). Checks that they
    have fetched since."""
    fetch, seen = Cluster.fetch, list[int]()

    def fetched(self: Cluster, topic: str, of: int, offset: int, *, max_bytes: int, **more: Any) -> FetchAnswer:
        # Smaller fetches are of planning.
        if max_bytes > ONE_BATCH and partition in (None, of):
            seen.append(of)
            if len(seen) == number:
                act()
        return fetch(self, topic, of, offset, max_bytes=max_bytes, **more)

    with mock.patch.object(Cluster, "fetch", fetched):
        yield
    assert len(seen) > number


def last_finished(lake: Path) -> dict[str, Any]:
    """The ledger's row."""
    return max((row for row in rows(lake, "audits") if row["status"] == "finished"), key=lambda row: row["audit_id"])


def files_of(folder: Path) -> dict[str, int]:
    """Every file below the folder, and when it was last written."""
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
