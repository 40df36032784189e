"""The plan for `__share_group_state` and `__transaction_state`, made in the same way as for `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.audit.plan import (
    DEFAULT_DELETE_RETENTION_MS,
    AuditPlan,
    DeleteRetention,
    PartitionPlan,
    known_corrupt,
    not_read_now,
    plan_audit,
    read_now,
)
from kgroups_spark.audit.same_log import KnownReadings
from kgroups_spark.coordinator.share_shard import ListedTopic, SharePartitionRow, listed_share_partitions, listed_topics
from kgroups_spark.coordinator.transaction_shard import (
    MAX_TRANSACTION_TIMEOUT_MS,
    Listings,
    OpenOnPartition,
    TopicPartition,
    Verdict,
    verdict,
)
from kgroups_spark.findings.finders import listing_row
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.parts import Part
from kgroups_spark.lake.replaced import NOTHING
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.messages.coordinator_records import COORDINATOR_LOGS
from kgroups_spark.offsets.columns import milliseconds
from kgroups_spark.replay.ranges import RangeProgress, newest_time
from kgroups_spark.replay.state_logs import StateShardRead, StateShardWork
from kgroups_spark.sources.partition_log import PartitionLog
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.rows import table_of_rows, with_columns
from kgroups_spark.words import counted, to_datetime, to_epoch_ms


class StatePlan(NamedTuple):
    """The plans by topic. `before`: the last finished audit; None: none has finished."""

    plans: Mapping[str, AuditPlan] = {}
    before: AuditRow | None = None

    @property
    def is_new(self) -> bool:
        return any(plan.is_new for plan in self.plans.values())

    @property
    def shards(self) -> list[StateShardWork]:
        """Every partition that has or gets a state, including those that were not given this time; sorted."""
        known = {(each.topic or "", each.offsets_partition) for each in self._known}
        works = {place: StateShardWork(*place) for place in known}
        for topic, plan in self.plans.items():
            for each in plan.partitions:
                ranges = tuple(r for r in (each.reread, each.new) if r is not None)
                works[topic, each.offsets_partition] = StateShardWork(
                    topic,
                    each.offsets_partition,
                    ranges,
                    each.lost_to if _is_deleted_from(topic) else None,
                    is_replaced=each.cut is not None,
                )
        return [works[place] for place in sorted(works)]

    @property
    def _known(self) -> tuple[PartitionProgress, ...]:
        return self.before.state_partitions if self.before else ()

    def settled(self, reads: Sequence[StateShardRead]) -> StatePlan:
        """See AuditPlan."""
        plans = {topic: plan.settled(progress_of(topic, reads)) for topic, plan in self.plans.items()}
        return self._replace(plans=plans)

    def entries(self, reads: Sequence[StateShardRead]) -> list[PartitionProgress]:
        """The ledger's entry of each partition: how far it has now been read."""
        found = {(each.topic or "", each.offsets_partition): not_read_now(each) for each in self._known}
        for topic, plan in self.plans.items():
            for partition in plan.partitions:
                number = partition.offsets_partition
                ranges = [each for each in progress_of(topic, reads) if each.offsets_partition == number]
                entry = read_now(partition, ranges)._replace(topic=topic)
                if _is_deleted_from(topic):  # DeleteRecords removes only records that newer snapshots replace
                    entry = entry._replace(lost_from=None, lost_to=None)
                found[topic, number] = entry._replace(newest_log_timestamp=_newest(partition, ranges))
        return [found[place] for place in sorted(found)]

    def notes(self, reads: Sequence[StateShardRead]) -> Iterator[str]:
        for topic, plan in self.plans.items():
            yield from (f"{topic}: {note}" for note in (() if _is_deleted_from(topic) else plan.losses))
        for read in (each for each in reads if each.gone):
            is_, was = ("is", "was") if read.gone == 1 else ("are", "were")
            keys = f"{counted(read.gone, 'key')} that {is_} no longer in the log"
            yield f"{read.topic}: {keys} {was} removed from the tables"


def progress_of(topic: str, reads: Sequence[StateShardRead]) -> list[RangeProgress]:
    return [each for read in reads if read.topic == topic for each in read.progress]


def plan_state_logs(
    logs: Mapping[str, Sequence[PartitionLog]],
    before: AuditRow | None,
    *,
    lake: Lake | None = None,
    full: bool = False,
    delete_retention_ms: int = DEFAULT_DELETE_RETENTION_MS,
    accept: bool = False,
) -> StatePlan:
    """The new part of the logs since the last finished audit. Raises AnotherLog if a log is of another cluster. `lake`:
    given once the claim is taken; it has the known damage in quarantine."""
    plans = {}
    for topic, given in logs.items():
        last = before.of_state_log(topic) if before else None
        plans[topic] = plan_audit(
            given,
            last,
            full=full,
            known_corrupt=known_corrupt(lake, topic) if lake else None,
            # None for a log that DeleteRecords shortens: its start shows which records are gone.
            delete_retention=DeleteRetention.since(lake, last, delete_retention_ms, topic)
            if lake and last and not _is_deleted_from(topic)
            else None,
            readings=KnownReadings(lambda _: iter(()), NOTHING, lambda _: 0, accept),
        )
    return StatePlan(plans, before)


def _is_deleted_from(topic: str) -> bool:
    return COORDINATOR_LOGS[topic].clean_up_policy == "delete"


def _newest(plan: PartitionPlan, ranges: Sequence[RangeProgress]) -> datetime | None:
    known = plan.before.newest_log_timestamp if plan.before else None
    newest_ms = newest_time(each.log_times for each in ranges)
    newest = None if newest_ms is None else to_datetime(newest_ms)
    return max((at for at in (known, newest) if at is not None), default=None)


# `share_partitions` and `share_batches` completed by the group coordinator's list and names of topics.


SHARES = ("share_partitions", "share_batches")
# ShareGroupStatePartitionMetadata of __consumer_offsets.
LISTING = 15


def complete_shares(writer: LakeWriter, stored: Sequence[pa.Table]) -> None:
    """Replaces share_partitions by the stored rows with topic and init_state, and rows of partitions only listed;
    share_batches by the stored rows with topic. Does nothing if nothing is `stored`: the lake has no such logs."""
    if not stored:
        return
    lake, (partitions, batches) = writer.lake, stored
    columns = [milliseconds(partitions[name]).to_pylist() for name in SharePartitionRow._fields]
    known = lake.rows("topics", columns=["topic_id", "topic"])
    topics = dict(zip(known["topic_id"].to_pylist(), known["topic"].to_pylist(), strict=True))
    in_state = [SharePartitionRow(*row) for row in zip(*columns, strict=True)]
    rows = listed_share_partitions(in_state, _listed(lake), topics)
    listed = table_of_rows("share_partitions", SharePartitionRow._fields, rows, audit_id=writer.audit_id)
    writer.replace_table("share_partitions", listed)
    topics = {row.topic_id: row.topic for row in rows}
    names = [topics.get(topic_id) for topic_id in batches["topic_id"].to_pylist()]
    writer.replace_table("share_batches", with_columns(batches, topic=pa.array(names, pa.string())))


def _listed(lake: Lake) -> list[ListedTopic]:
    """Each group's newest listing, if it has not become another group. Where the cleaner took a listing's tombstone, a
    correction (R6) removes the group or makes it one of another type; history has no end of the listing."""
    listings = _newest_of_each(_rows_of(lake, "group_records", "value", Condition("record_type", "==", LISTING)))
    if not listings:
        return []
    groups = sorted({group_id for _, group_id in listings})
    versions = _rows_of(lake, "group_versions", "group_type", Condition("group_id", "in", groups), "is_removed")
    ends = _newest_of_each(versions.filter(pc.field("is_removed") | (pc.field("group_type") != "share")))
    return [
        topic
        for group, (log_offset, value) in listings.items()
        if value is not None and ends.get(group, (-1, ""))[0] < log_offset
        for topic in listed_topics(group[1], orjson.loads(value))
    ]


def _rows_of(lake: Lake, table: str, column: str, condition: Condition, *more: str) -> pa.Table:
    columns = ["offsets_partition", "group_id", "log_offset", column, *more]
    return lake.rows(table, columns=columns, conditions=[condition]).select(columns)


def _newest_of_each(rows: pa.Table) -> dict[tuple[int, str], tuple[int, Any]]:
    """Log offset and the column after it of the newest row of each group in its offsets partition."""
    found = zip(*(column.to_pylist() for column in rows.sort_by("log_offset").columns[:4]), strict=True)
    return {(partition, group_id): (log_offset, value) for partition, group_id, log_offset, value in found}


# Open transactions completed from `__transaction_state`: the names of their producers, and which of them hang.


NAMED = ("pending_offsets", "open_transactions")
NAME = "transactional_id"


class NamingWriter(LakeWriter):
    """A writer that fills in the names of the producers of NAMED, and which of their transactions the coordinator will
    end. `transactional_ids` must be written before."""

    def replace_parts(self, table: str, parts: Sequence[Part], keep_audit: int | None = None) -> None:
        """Rows of NAMED become one part with the names, because few transactions are open at a time."""
        if table in NAMED and self.lake.table("transactional_ids").files():
            rows = self.lake.dataset(table, [part.path for part in parts]).to_table()
            parts = self.lake.write(table, [named_table(self.lake, rows)], self.audit_id)
        super().replace_parts(table, parts, keep_audit)


def named_table(lake: Lake, rows: pa.Table) -> pa.Table:
    """The rows with the names of their producers; null: `__transaction_state` does not have the producer. Old
    transactions that are listed there do not hang."""
    producers = pc.unique(rows["producer_id"]).to_pylist()
    columns = ["producer_id", NAME, "state", "timeout_ms", "topic_partitions"]
    wanted = [Condition("producer_id", "in", producers)]
    known = lake.rows("transactional_ids", columns=columns, conditions=wanted).to_pylist() if producers else []
    names = {each["producer_id"]: each[NAME] for each in known}
    more = {NAME: pa.array([names.get(producer) for producer in rows["producer_id"].to_pylist()], pa.string())}
    if "is_hanging" in rows.column_names:
        listed = Listings(map(listing_row, known))
        hangs = [row["is_hanging"] and not _will_end(row, listed) for row in rows.to_pylist()]
        more["is_hanging"] = pa.array(hangs, pa.bool_())
    return with_columns(rows, **more)


def _will_end(old: dict[str, Any], listed: Listings) -> bool:
    since = to_epoch_ms(old["open_since"])
    place = TopicPartition("__consumer_offsets", old["offsets_partition"])
    transaction = OpenOnPartition(place, old["producer_id"], since)
    long_after = since + 2 * MAX_TRANSACTION_TIMEOUT_MS
    found = verdict(transaction, listed, long_after, MAX_TRANSACTION_TIMEOUT_MS)
    return found in (Verdict.LISTED, Verdict.TWO_PHASE)
