"""The demo's log: three weeks of a shop that Kafka 4.3.1's coordinator classes wrote, its last morning, and the logs of
the two other coordinators.

    python -m tests.logs.demo_log          writes kgroups_spark/demo/segments again

The last morning is made here, of records as Kafka 4.3.1 writes them: two pods fight over the static member
fraud-scoring-1, and two new members of returns-sync wait for partitions of one that does not release them.
`__transaction_state` has the transactions whose offsets are in `__consumer_offsets`, at the times that they have there;
`__share_group_state` has what packing-tasks acknowledged of the topic shipments, and records that it could not process.

The input is the shipped `__consumer_offsets`. Batches that were made here before are taken out first, so that a second
run gives the same bytes.
"""

from __future__ import annotations

import base64
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple
from uuid import NAMESPACE_DNS, UUID, uuid5

from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.messages.coordinator_records import (
    GROUP_LOG,
    SHARE_LOG,
    TRANSACTION_LOG,
    CoordinatorRecord,
    GroupRecordDecoder,
    Undecodable,
)
from tests.findings.record_bytes import Json, record
from tests.logs.cleaner import Batch, batches_of
from tests.records.build import KeyValue, batch
from tests.share_coordinator import histories as share
from tests.transaction_coordinator import histories as transactions

STATE_PARTITIONS = 2  # of each of the two other logs
STOCK_LEVELS, SHIPMENTS = "96ZFkzqecFDf5EBcJ1vljQ", "pDVbmFuTDFhD5auEH3QIGA"
DECODER = GroupRecordDecoder()


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


MORNING, END = ms("2026-11-16T06:00"), ms("2026-11-16T06:41:21.650")


class Record(NamedTuple):
    """A record of the shipped `__consumer_offsets`. `of` None: a marker."""

    at: int
    producer: int
    epoch: int
    key: bytes
    bytes: bytes | None
    of: CoordinatorRecord | None

    @property
    def value(self) -> Json:
        assert self.of is not None
        return self.of.value or {}

    @property
    def member(self) -> str:
        assert self.of is not None
        return str(self.of.key["memberId"])


class Write(NamedTuple):
    """The batch that one write of a coordinator appends."""

    at: int
    records: list[KeyValue]


def of_group(log: Sequence[Record], group: str, record_type: int) -> list[Record]:
    return [each for each in log if each.of and each.of.record_type == record_type and each.of.group_id == group]


# The last morning of __consumer_offsets.

FIGHT, STUCK = "fraud-scoring", "returns-sync"


def two_pods(log: Sequence[Record]) -> list[Write]:
    """A deployment and its canary have one group.instance.id: each start puts the other one out, which its supervisor
    starts again. Both have equal metadata, so no rebalance follows, and the coordinator writes the group once."""
    last = of_group(log, FIGHT, 2)[-1]
    [before] = [each for each in last.value["members"] if each["groupInstanceId"] == "fraud-scoring-1"]
    hosts, writes, at = (before["clientHost"], "/10.11.37.204"), [], ms("2026-11-16T06:19:12.408")
    assert last.bytes is not None
    assert len(hosts[0]) == len(hosts[1])
    assert last.bytes.count(hosts[0].encode()) == 1
    for start in range(16):
        value = last.bytes.replace(before["memberId"].encode(), f"fraud-scoring-1-{uuid(start)}".encode())
        value = value.replace(hosts[0].encode(), hosts[(start + 1) % 2].encode())
        writes.append(Write(at, [(last.key, value)]))
        at += 61_000 + 7_919 * (start % 5)
    return writes


def stuck_rebalance(log: Sequence[Record]) -> list[Write]:
    """returns-sync grows from two pods to four. `slow` is asked for partition 2 at once, but polls only when it has
    processed its records. Both new members wait for it, one for a partition that nobody has asked it for yet."""
    group = of_group(log, STUCK, 3)[-1].value
    about = {each.member: each.value for each in of_group(log, STUCK, 5)}
    owns = {each.member: epochs_of(each.value) for each in of_group(log, STUCK, 8) if each.value}
    [slow] = [member for member, epochs in owns.items() if sorted(epochs) == [0, 1, 2]]
    [other] = [member for member, epochs in owns.items() if sorted(epochs) == [3, 4]]
    epoch, first, second = group["epoch"], short_id(107), short_id(108)

    def joins(at: int, member: str, host: str, epoch: int, left_to_slow: list[int], gets: int) -> Write:
        mine = about[slow] | {"clientId": f"consumer-{STUCK}-{epoch - 2}", "clientHost": host}
        target = [(slow, left_to_slow), (member, [gets])]
        return Write(
            at,
            [
                entry(5, mine, member),
                entry(3, group | {"epoch": epoch}),
                *(entry(7, {"topicPartitions": [stock_levels(numbers)]}, name) for name, numbers in target),
                entry(6, {"assignmentEpoch": epoch, "assignmentTimestamp": at}),
                current(member, epoch, 0, WAITS, {}),
            ],
        )

    kept, released = {n: e for n, e in owns[slow].items() if n < 2}, {2: owns[slow][2]}
    at, later = ms("2026-11-16T06:37:41.114"), ms("2026-11-16T06:37:58.371")
    return [
        joins(at, first, "/10.8.3.118", epoch + 1, [0, 1], 2),
        Write(at + 1_902, [current(slow, epoch, epoch, RELEASES, kept, released)]),
        Write(at + 3_420, [current(other, epoch + 1, epoch, STABLE, owns[other])]),
        joins(later, second, "/10.12.44.7", epoch + 2, [0], 1),
        Write(later + 1_207, [current(other, epoch + 2, epoch + 1, STABLE, owns[other])]),
        Write(later + 3_066, [current(first, epoch + 2, epoch + 1, WAITS, {})]),
    ]


STABLE, RELEASES, WAITS = range(3)


def current(
    member: str, epoch: int, previous: int, state: int, owns: dict[int, int], released: dict[int, int] | None = None
) -> KeyValue:
    """A member's current assignment: partitions, each with the epoch at which it was assigned."""
    value = {"memberEpoch": epoch, "previousMemberEpoch": previous, "state": state}
    lists = {"assignedPartitions": owns, "partitionsPendingRevocation": released or {}}
    for name, epochs in lists.items():
        value[name] = [stock_levels(list(epochs)) | {"assignmentEpochs": list(epochs.values())}] if epochs else []
    return entry(8, value, member)


def epochs_of(value: Json) -> dict[int, int]:
    topics = value["assignedPartitions"]
    return {n: e for each in topics for n, e in zip(each["partitions"], each["assignmentEpochs"], strict=True)}


def entry(record_type: int, value: Json, member: str | None = None) -> KeyValue:
    return record(record_type, {"groupId": STUCK} | ({} if member is None else {"memberId": member}), value)


def stock_levels(numbers: list[int]) -> Json:
    return {"topicId": STOCK_LEVELS, "partitions": numbers}


MADE: dict[str, Callable[[Sequence[Record]], list[Write]]] = {FIGHT: two_pods, STUCK: stuck_rebalance}


def is_made(each: Batch) -> bool:
    """Whether the batch is of the last morning: these groups have only commits besides."""
    if each.max_timestamp < MORNING or each.is_control:
        return False
    decoded = DECODER.decode(each.records()[0].key, each.records()[0].value)
    assert not isinstance(decoded, Undecodable)
    return decoded.record_type > 1 and decoded.group_id in MADE


# __transaction_state.

# By producer id the transactional id, the output topic and its partition. tests/data/story.json has these producers.
PRODUCERS = {
    4010: ("tx-payments-ledger-4882e7d3-vg6q2", "ledger", 0),
    4013: ("tx-payments-ledger-4882e7d3-wb5nn", "ledger", 0),
    4015: ("tx-billing-engine-b64d9ce0-vshzp", "invoices", 0),
    4018: ("tx-billing-engine-b64d9ce0-86z75", "invoices", 1),
    4020: ("tx-payments-ledger-4882e7d3-zzx7s", "ledger", 1),
}
# The cleaner has left the newest record of each id before it.
CLEANED_UP_TO = ms("2026-11-13")
ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMMITTED, ABORTED = range(1, 6)


class Transaction(NamedTuple):
    offsets_partition: int
    epoch: int
    at: int  # of its first offset
    end: tuple[int, bool] | None  # time of the marker, whether it commits


def transaction_state(logs: dict[int, list[Record]]) -> Iterator[tuple[int, Write]]:
    """Writes, each with its partition."""
    for producer, (name, topic, number) in PRODUCERS.items():
        rows: list[tuple[int, Json]] = []
        for each in transactions_of(producer, logs):
            rows += changes(each, {topic: [number]})
        cleaned = [row for row in rows if row[0] < CLEANED_UP_TO]
        for at, value in [*cleaned[-1:], *rows[len(cleaned) :]]:
            fixed = {"producerId": producer, "previousProducerId": producer, "clientTransactionVersion": 2}
            fixed |= {"transactionTimeoutMs": 60_000}
            pair = transactions.key_bytes(name), transactions.value_bytes(value | fixed, 1)
            yield TRANSACTION_LOG.partition_of({"transactionalId": name}, STATE_PARTITIONS), Write(at, [pair])


def transactions_of(producer: int, logs: dict[int, list[Record]]) -> list[Transaction]:
    found = []
    for number, log in logs.items():
        first: Record | None = None
        for each in log:
            if each.producer == producer and each.of is not None:
                first = first or each
            elif each.producer == producer and first is not None:
                found.append(Transaction(number, first.epoch, first.at, (each.at, each.key[2:] == b"\0\1")))
                first = None
        if first is not None:
            found.append(Transaction(number, first.epoch, first.at, None))
    return sorted(found, key=lambda each: each.at)


def changes(each: Transaction, output: dict[str, list[int]]) -> Iterator[tuple[int, Json]]:
    """(log time, value), as version 2 of transactions has them: the end raises the epoch. A transaction that was open
    for more than its time-out was over before its offsets came, which is how one comes to hang."""
    both = output | {"__consumer_offsets": [each.offsets_partition]}
    begun, epoch = each.at - 214, each.epoch
    if each.end is None and END - each.at > 60_000:
        begun, ended = each.at - 60_412, each.at - 391
        yield begun, change(ONGOING, epoch, begun, begun, output)
        yield ended, change(PREPARE_ABORT, epoch + 1, ended, begun, output)
        yield ended + 6, change(ABORTED, epoch + 1, ended + 1, begun, {})
        return
    yield begun, change(ONGOING, epoch, begun, begun, output)
    yield each.at - 4, change(ONGOING, epoch, each.at - 4, begun, both)
    if each.end is not None:
        at, commits = each.end
        yield at - 3, change(PREPARE_COMMIT if commits else PREPARE_ABORT, epoch + 1, at - 3, begun, both)
        yield at + 5, change(COMMITTED if commits else ABORTED, epoch + 1, at - 2, begun, {})


def change(status: int, epoch: int, updated: int, begun: int, partitions: dict[str, list[int]]) -> Json:
    return {
        "transactionStatus": status,
        "producerEpoch": epoch,
        "transactionLastUpdateTimestampMs": updated,
        "transactionStartTimestampMs": begun,
        "transactionPartitions": sorted(partitions.items()),
    }


# __share_group_state.

# Offsets by partition. Those that are tried when the log ends are not given up yet.
POISON = {0: (326_500,), 1: (349_911, 349_912, 350_871, 351_204), 2: (217_600,)}
REJECTED = {350_871}  # by the consumer, which knew at once
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
SHARE_EPOCHS = {"epoch": 41, "leader_epoch": 2}


def share_state(logs: dict[int, list[Record]]) -> Iterator[tuple[int, Write]]:
    """packing-tasks acknowledges the records that shipment-tracker commits. Those that fail are delivered five times
    (share.delivery.count.limit), each time later by share.record.lock.duration.ms, and given up."""
    points = defaultdict(list)
    for each in (each for log in logs.values() for each in of_group(log, "shipment-tracker", 1)):
        assert each.of is not None
        if each.of.key["topic"] == "shipments" and each.at > ms("2026-11-15T12:00"):
            points[int(each.of.key["partition"])].append((each.at, int(each.value["offset"])))
    for partition, [(at, start), *rest] in sorted(points.items()):
        delay = 7_311 * (partition + 1)
        times = at + delay, at + delay
        yield stored(
            at + delay, partition, 0, share.snapshot((), start, state_epoch=3, times=times, complete=0, **SHARE_EPOCHS)
        )
        last = END - 71_650 - delay, rest[-1][1] + 190 + 31 * partition
        for at, end in [*rest, last]:
            yield from acknowledged(at + delay, partition, start, end)
            start = end


def acknowledged(at: int, partition: int, start: int, end: int) -> Iterator[tuple[int, Write]]:
    """A poll of the records from start to end, and what follows for those that fail."""
    failing = [offset for offset in POISON[partition] if start <= offset < end]
    edges = [start - 1, *failing, end]
    good = [(a + 1, b - 1) for a, b in pairwise(edges) if a + 1 < b]
    states = [share.batch(*each, ACKNOWLEDGED, 1) for each in good]
    states += [share.batch(each, each, ARCHIVED if each in REJECTED else AVAILABLE, 1) for each in failing]
    again = [offset for offset in failing if offset not in REJECTED]
    done = end - start - len(again)
    states.sort(key=lambda each: int(each["firstOffset"]))
    yield stored(at, partition, 1, share.update(states, start, complete=done, **SHARE_EPOCHS))
    for count in range(2, 6) if again else ():
        at += 30_000 + 211 * count
        if at > END:
            return
        state = ARCHIVED if count == 5 else AVAILABLE
        states = [share.batch(each, each, state, count) for each in again]
        over = done - (again[0] - start) + len(again) * (count == 5)
        yield stored(at, partition, 1, share.update(states, again[0], complete=over, **SHARE_EPOCHS))


def stored(at: int, partition: int, record_type: int, value: Json) -> tuple[int, Write]:
    one = share.Record(record_type, "packing-tasks", SHIPMENTS, partition, value)
    key = {"groupId": one.group_id, "topicId": one.topic_id, "partition": partition}
    return SHARE_LOG.partition_of(key, STATE_PARTITIONS), Write(at, [(share.key_bytes(one), share.value_bytes(one))])


# All of it.


def demo_log(shipped: dict[str, bytes]) -> dict[str, bytes]:
    """The demo's files by path below its folder, from those as they are shipped."""
    folders: dict[int, dict[str, list[Batch]]] = defaultdict(dict)
    for path, data in sorted(shipped.items()):
        if path.startswith(GROUP_LOG.topic):
            number = int(path.split("/")[0].rsplit("-", 1)[1])
            folders[number][path] = [each for each in batches_of(data) if not is_made(each)]
    logs = {number: [each for part in folder.values() for each in read(part)] for number, folder in folders.items()}
    out: dict[str, bytes] = {}
    for number, folder in folders.items():
        mine = [made for group, made in MADE.items() if GROUP_LOG.partition_of({"group": group}, 8) == number]
        out |= with_writes(folder, [write for made in mine for write in made(logs[number])])
    for log, written in ((TRANSACTION_LOG, transaction_state(logs)), (SHARE_LOG, share_state(logs))):
        writes: dict[int, list[Write]] = {number: [] for number in range(STATE_PARTITIONS)}
        for number, write in written:
            writes[number].append(write)
        out |= {f"{log.topic}-{number}/{0:020}.log": appended(0, each) for number, each in writes.items()}
    return out


def read(batches: Sequence[Batch]) -> Iterator[Record]:
    for each in batches:
        for one in each.records():
            decoded = None if each.is_control else DECODER.decode(one.key, one.value)
            assert one.key is not None
            assert not isinstance(decoded, Undecodable)
            yield Record(each.max_timestamp, each.producer_id, each.producer_epoch, one.key, one.value, decoded)


def with_writes(folder: dict[str, list[Batch]], writes: list[Write]) -> dict[str, bytes]:
    """A partition's files with the writes at their times in the last one, where later offsets move."""
    *old, last = sorted(folder)
    out = {path: b"".join(each.data for each in folder[path]) for path in old}
    data, offset, left = b"", int(last.split("/")[1].removesuffix(".log")), writes
    for each in folder[last]:
        earlier = [write for write in left if write.at < each.max_timestamp]
        data, left = data + appended(offset, earlier, each.leader_epoch), left[len(earlier) :]
        offset += sum(len(write.records) for write in earlier)
        data += struct.pack(">q", offset) + each.data[8:]  # the checksum does not cover it
        offset += each.last_offset - each.base_offset + 1
    return out | {last: data + appended(offset, left, folder[last][-1].leader_epoch)}


def appended(offset: int, writes: Sequence[Write], leader_epoch: int = 0) -> bytes:
    data = b""
    for write in sorted(writes, key=lambda write: write.at):
        times = {"base_timestamp": write.at, "max_timestamp": write.at}
        data += batch(offset, write.records, leader_epoch=leader_epoch, **times)
        offset += len(write.records)
    return data


def uuid(number: int) -> UUID:
    return uuid5(NAMESPACE_DNS, f"{number}.demo")


def short_id(number: int) -> str:
    """A member id of KIP-848, as clients make it."""
    return base64.urlsafe_b64encode(uuid(number).bytes).decode().rstrip("=")


def shipped() -> dict[str, bytes]:
    return {str(path.relative_to(SEGMENTS)): path.read_bytes() for path in sorted(SEGMENTS.glob("*/*.log"))}


if __name__ == "__main__":
    for path, data in demo_log(shipped()).items():
        (SEGMENTS / path).parent.mkdir(exist_ok=True)
        (SEGMENTS / path).write_bytes(data)
