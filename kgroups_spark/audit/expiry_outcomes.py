"""The outcomes of the previous audit's expiry decisions: how many offsets expired, stayed, or were committed again.

The counts are those of the view expiry_outcomes, whose SQL defines the rule. The driver computes them from the files
that this audit wrote, as every audit reports them: 0.1 CPU s for 39,000 decisions, where the view takes 23 of a Spark
session that has just started. If pyarrow does not reach the lake, the view itself is queried.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import IS_FINISHED
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.store import TableFile
from kgroups_spark.tables.conditions import Condition, all_may_hold, partitions_in_lots
from kgroups_spark.views.needed import needed_for
from kgroups_spark.views.spark_views import register_views

OUTCOMES = ("removed", "kept_alive", "still_there", "not_foreseen")

SLOT = ["offsets_partition", "group_id", "topic", "partition"]
DECIDED = [*SLOT, "log_offset", "decision", "expires_at", "decided_by"]
COMMIT = [*SLOT, "log_offset", "log_timestamp", "producer_id", "outcome", "marker_offset"]


def expiry_outcome_counts(lake: Lake, audit: AuditRow) -> dict[str, int] | None:
    """The number of rows of the view expiry_outcomes by outcome (OUTCOMES), as of the audit that has just finished.

    None: it decided nothing, or there was no audit before it.
    """
    files = [
        f for f in lake.table("previous_offset_expiry").files() if f.bound("minValues", "audit_id") == audit.audit_id
    ]
    if not files:
        return None
    counts = _by_files(lake, audit, files) if lake.files_in_reach else _by_view(lake)
    return {outcome: counts[outcome] for outcome in OUTCOMES}


def outcome_line(counts: Mapping[str, int]) -> str:
    """Lines for people."""
    reported = ", ".join(f"{counts[outcome]:,} {outcome.replace('_', ' ')}" for outcome in OUTCOMES)
    return f"outcomes of the previous audit's expiry decisions: {reported}"


def _by_view(lake: Lake) -> Counter[str]:
    register_views(lake.spark, lake, needed_for("expiry_outcomes"))
    return Counter(lake.spark.table("expiry_outcomes").groupBy("outcome").count().rdd.collectAsMap())


# The number of decisions on the driver at once, with their outcomes: about 0.5 kB each, 130 MB.
DECISIONS_AT_ONCE = 262_144


def _by_files(lake: Lake, audit: AuditRow, files: list[TableFile]) -> Counter[str]:
    """Some offsets partitions at a time, each with all its decisions, so that memory does not grow with the lake."""
    counts = Counter[str]()
    transactions: EndedTransactions | None = None
    for some in _partitions_at_a_time(lake, files):
        decided = lake.rows("previous_offset_expiry", files=files, columns=DECIDED, conditions=[some])
        changed = _count_unchanged(lake, decided, some, counts)
        if changed.num_rows:
            transactions = transactions or EndedTransactions.since(lake, changed["decided_by"][0].as_py())
            first = _first_events(lake, changed, some, transactions)
            counts.update(_outcomes(changed.join(first, SLOT, join_type="left outer"), audit.as_of))
    return counts


def _partitions_at_a_time(lake: Lake, files: list[TableFile]) -> Iterator[Condition]:
    """Conditions that divide the decisions by offsets partition, in lots of DECISIONS_AT_ONCE or of one partition."""
    column = lake.rows("previous_offset_expiry", files=files, columns=["offsets_partition"])["offsets_partition"]
    counts = {each["values"]: each["counts"] for each in pc.value_counts(column).to_pylist()}
    return partitions_in_lots(counts, DECISIONS_AT_ONCE)


def _count_unchanged(lake: Lake, decided: pa.Table, some: Condition, counts: Counter[str]) -> pa.Table:
    """Counts the decisions with an unchanged offset; returns the others, with log_offset_now (null: it is gone)."""
    now = lake.rows("committed_offsets", columns=[*SLOT, "log_offset"], conditions=[some])
    # If a log was cut back, another record may have the same log offset.
    same, same_now = (np.zeros(0, np.int64),) * 2 if lake.replaced else _same_records(decided, now)
    counts["still_there"] += int(pc.equal(decided["decision"], "expire").to_numpy()[same].sum())
    now = _without(now, same_now).rename_columns([*SLOT, "log_offset_now"])
    changed = _without(decided, same).join(now, SLOT, join_type="left outer")
    is_the_same = pc.fill_null(pc.equal(changed["log_offset"], changed["log_offset_now"]), False)
    counts["still_there"] += pc.sum(pc.and_(is_the_same, pc.equal(changed["decision"], "expire"))).as_py() or 0
    return changed.filter(pc.invert(is_the_same))


def _same_records(decided: pa.Table, now: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of both whose record is the same, by its log offset. Nearly all are, and one sort finds them in a
    tenth of the time of a join by slot.

        decided: (0, 21), (0, 17), (1, 17)    now: (1, 17), (0, 30), (0, 21)    offsets_partition, log_offset
        -> [0, 2], [2, 0]
    """
    partition, log_offset = (
        np.concatenate([rows[name].to_numpy() for rows in (decided, now)])
        for name in ("offsets_partition", "log_offset")
    )
    order = np.lexsort((log_offset, partition))  # stable: a decided row comes before an equal present one
    first, second = order[:-1], order[1:]
    is_pair = (partition[first] == partition[second]) & (log_offset[first] == log_offset[second])
    is_pair &= (first < len(decided)) & (second >= len(decided))
    return first[is_pair], second[is_pair] - len(decided)


def _without(rows: pa.Table, numbers: NDArray[np.int64]) -> pa.Table:
    return rows.take(pa.array(np.setdiff1d(np.arange(len(rows)), numbers, assume_unique=True)))


def _first_events(lake: Lake, changed: pa.Table, some: Condition, transactions: EndedTransactions) -> pa.Table:
    """Per slot of `changed` the first record since the decision that changed it: is_tombstone, log_timestamp."""
    wanted = changed.select([*SLOT, "log_offset"]).rename_columns([*SLOT, "decided_log_offset"])
    firsts = [
        _first(_events(rows, transactions).join(wanted, SLOT, join_type="inner"))
        for rows in _commits(lake, transactions, some)
    ]
    return _first(pa.concat_tables(firsts)).drop_columns(["effective_log_offset", "log_offset", "decided_log_offset"])


def _first(events: pa.Table) -> pa.Table:
    """The first of several events for a slot; the last of a transaction's values for a slot.

    An event older than the committed record does not count.
    """
    newer = events.filter(pc.greater(events["log_offset"], events["decided_log_offset"]))
    in_order = newer.sort_by([("effective_log_offset", "ascending"), ("log_offset", "descending")])
    names = [name for name in in_order.column_names if name not in SLOT]
    # On one thread `first` is the first in the table's order.
    first = in_order.group_by(SLOT, use_threads=False).aggregate([(name, "first") for name in names])
    return first.rename_columns([*SLOT, *names])


@dataclass(frozen=True)
class EndedTransactions:
    """The log read since audit `decided_by`: its start by offsets partition, and the COMMIT markers in it,
    whose transactions may have begun before."""

    decided_by: int
    read_to: dict[int, int]
    markers: pa.Table

    @classmethod
    def since(cls, lake: Lake, decided_by: int) -> EndedTransactions:
        finished = [Condition("audit_id", "==", decided_by), IS_FINISHED]
        (then,) = lake.rows("audits", columns=["partitions"], conditions=finished).to_pylist()
        markers = lake.rows(
            "transaction_markers",
            files=_newer_files(lake, "transaction_markers", decided_by),
            columns=["offsets_partition", "producer_id", "transaction_start_offset", "log_offset"],
            conditions=[Condition("outcome", "==", "committed"), Condition("transaction_start_offset", "is not null")],
        )
        read_to = {p["offsets_partition"]: p["end_offset"] for p in then["partitions"] or () if p["topic"] is None}
        # Ranges that were replaced since do not count as read.
        firsts = {number: lake.replaced.first_after(number, decided_by) for number in read_to}
        read_to = {number: end if (at := firsts[number]) is None else min(end, at) for number, end in read_to.items()}
        return cls(decided_by, read_to, markers)

    def oldest_before(self) -> int | None:
        """The lowest log offset of those that began before; None: none did."""
        oldest = self.markers.group_by("offsets_partition").aggregate([("transaction_start_offset", "min")])
        began = zip(*(column.to_pylist() for column in oldest.columns), strict=True)
        return min((start for partition, start in began if start < self.read_to.get(partition, 0)), default=None)

    def marker_offset(self, offsets_partition: int, producer_id: int, log_offset: int) -> int:
        """The log offset of the COMMIT marker of the transaction with that record; -1: it was not committed."""
        spans = self._spans.get((offsets_partition, producer_id), [])
        at = bisect_right(spans, log_offset, key=lambda span: span[0]) - 1
        return spans[at][1] if at >= 0 and log_offset < spans[at][1] else -1

    @cached_property
    def _spans(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """By partition and producer: first record and marker of each transaction, in order."""
        spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for partition, producer_id, *span in zip(*(c.to_pylist() for c in self.markers.columns), strict=True):
            spans.setdefault((partition, producer_id), []).append(tuple(span))
        return {producer: sorted(its) for producer, its in spans.items()}


def _commits(lake: Lake, transactions: EndedTransactions, some: Condition) -> Iterator[pa.Table]:
    """Rows of offset_commits of some partitions that include all events since, a file at a time; first an empty batch,
    for its columns."""
    columns = [*COMMIT, "committed_offset", "is_transactional"]
    newer = _newer_files(lake, "offset_commits", transactions.decided_by)
    yield lake.rows("offset_commits", files=[], columns=columns)
    for file in newer:
        if all_may_hold([some], file.bound):
            yield lake.rows("offset_commits", files=[file], columns=columns, conditions=[some])
    oldest, read = transactions.oldest_before(), {file.path for file in newer}
    if oldest is not None:
        older = [
            f for f in lake.table("offset_commits").files() if f.path not in read and _reaches(f, "log_offset", oldest)
        ]
        without_marker = [Condition("is_transactional", "==", True), Condition("outcome", "is null")]
        yield lake.rows("offset_commits", files=older, columns=columns, conditions=[some, *without_marker])


def _newer_files(lake: Lake, table: str, audit_id: int) -> list[TableFile]:
    return [file for file in lake.table(table).files() if _reaches(file, "audit_id", audit_id + 1)]


def _reaches(file: TableFile, column: str, least: int) -> bool:
    highest = file.bound("maxValues", column)
    return highest is None or highest >= least


def _events(commits: pa.Table, transactions: EndedTransactions) -> pa.Table:
    """The rows that took effect since the decision, with the log offset at which they did."""
    effective = _effective_log_offsets(commits, transactions)
    partitions = commits["offsets_partition"].to_numpy()
    numbers, at = np.unique(partitions, return_inverse=True)
    # A partition that had not been read then has no decisions.
    since = np.array(
        [transactions.read_to.get(number, np.iinfo(np.int64).max) for number in numbers.tolist()], np.int64
    )
    events = commits.select([*SLOT, "log_offset", "log_timestamp"])
    events = events.append_column("is_tombstone", pc.is_null(commits["committed_offset"]))
    events = events.append_column("effective_log_offset", pa.array(effective))
    return events.filter(pa.array(effective >= since[at])) if len(effective) else events


def _effective_log_offsets(commits: pa.Table, transactions: EndedTransactions) -> np.ndarray:
    """int64[rows], -1: it has no effect. Tombstones and plain values: their own; transactions: their COMMIT marker."""
    own = commits["log_offset"].to_numpy()
    at_once = pc.or_(pc.is_null(commits["committed_offset"]), pc.is_null(commits["producer_id"])).to_numpy()
    committed = pc.fill_null(pc.equal(commits["outcome"], "committed"), False).to_numpy()
    markers = pc.fill_null(commits["marker_offset"], -1).to_numpy()
    effective = np.where(at_once, own, np.where(committed, markers, -1))
    elsewhere = pc.and_(commits["is_transactional"], pc.is_null(commits["outcome"])).to_numpy() & ~at_once
    rows = np.flatnonzero(elsewhere)
    if len(rows):
        some = commits.select(["offsets_partition", "producer_id", "log_offset"]).take(pa.array(rows))
        places = zip(*(column.to_pylist() for column in some.columns), strict=True)
        effective[rows] = [transactions.marker_offset(*place) for place in places]
    return effective


def _outcomes(changed: pa.Table, as_of: datetime | None) -> Counter[str]:
    """The outcome of slots with another committed record, or none; `as_of`: the last audit's."""
    counts: Counter[str] = Counter()
    gone = pc.fill_null(changed["is_tombstone"], pc.is_null(changed["log_offset_now"]))
    reported = changed.filter(pc.or_(gone, pc.equal(changed["decision"], "expire")))
    kinds = reported.select(["decision", "is_tombstone", "log_offset_now", "log_timestamp", "expires_at"])
    for decision, is_tombstone, log_offset_now, time, expires_at in zip(
        *(column.to_pylist() for column in kinds.columns), strict=True
    ):
        if is_tombstone is None and log_offset_now is not None:
            counts["still_there"] += 1
        elif is_tombstone is False:
            counts["kept_alive"] += 1
        elif decision == "expire":
            counts["removed" if time is None or time >= expires_at else "not_foreseen"] += 1
        else:
            gone_at = time or as_of
            foreseen = expires_at is not None and gone_at is not None and expires_at <= gone_at
            counts["removed" if foreseen else "not_foreseen"] += 1
    return counts
