"""Logs of offset commits at random, replayed record by record: the outcome of each offset that was there at a cut.

The referee is the state machine of the coordinator; it knows nothing of the views' rule.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kgroups_spark.coordinator.events import Slot
from kgroups_spark.coordinator.releases import release
from tests.lake.table_rows import rows_of
from tests.twin.offset_metadata import OffsetAndMetadata, OffsetCommit, OffsetMetadata
from tests.views.outcome_cases import at

SLOTS: list[Slot] = [("g", "t", 0), ("g", "t", 1), ("h", "t", 0)]
PRODUCERS = (7, 8)
LENGTH, CUT = 60, 30
VALUE = OffsetAndMetadata(1, None, "", 0, None, None, 3)


@dataclass
class RandomLog:
    """One offsets partition. `changed`: by slot the first record to change it since the cut, and whether it removed
    it."""

    seed: int
    partition: int
    commits: list[dict[str, Any]] = field(default_factory=list)
    markers: list[dict[str, Any]] = field(default_factory=list)
    decided: dict[Slot, int] = field(default_factory=dict)
    changed: dict[Slot, tuple[int, bool]] = field(default_factory=dict)
    offsets: OffsetMetadata = field(default_factory=lambda: OffsetMetadata(release("4.3")))

    def __post_init__(self) -> None:
        choice, begun = random.Random(self.seed), dict[int, int]()
        for log_offset in range(LENGTH):
            if log_offset == CUT:
                self.decided = self.committed()
            place = {
                "offsets_partition": self.partition,
                "log_offset": log_offset,
                "audit_id": 1 if log_offset < CUT else 2,
                "log_timestamp": at(log_offset),
            }
            producer_id = choice.choice(PRODUCERS)
            kind = choice.choices(["value", "tombstone", "pending", "pending tombstone", "marker"], [4, 2, 6, 1, 3])[0]
            if kind == "marker":
                self._end(place, producer_id, begun.pop(producer_id, None), choice.random() < 0.7)
            else:
                self._commit(place, kind, producer_id, choice)
                if kind.startswith("pending"):
                    begun.setdefault(producer_id, log_offset)
            if log_offset >= CUT:
                self._compare(log_offset, removed_by=log_offset)

    def committed(self) -> dict[Slot, int]:
        return {slot: commit.log_offset for slot, commit in self.offsets.committed_offsets()}

    def _commit(self, place: dict[str, Any], kind: str, producer_id: int, choice: random.Random) -> None:
        slot, is_transactional = choice.choice(SLOTS), kind.startswith("pending")
        producer_id = producer_id if is_transactional else -1
        row = {**place, **dict(zip(("group_id", "topic", "partition"), slot, strict=True))}
        row |= {"is_transactional": is_transactional, "producer_id": None if producer_id == -1 else producer_id}
        if kind.endswith("tombstone"):
            self.offsets.remove(slot, producer_id, is_transactional)
        else:
            row["committed_offset"] = 1
            commit = OffsetCommit(place["log_offset"], 1, -1, VALUE)
            self.offsets.put(slot, commit, producer_id, is_transactional)
        self.commits.append(row)

    def _end(self, place: dict[str, Any], producer_id: int, start: int | None, is_commit: bool) -> None:
        self.offsets.end_transaction(producer_id, is_commit)
        outcome = "committed" if is_commit else "aborted"
        self.markers.append(
            {**place, "producer_id": producer_id, "transaction_start_offset": start, "outcome": outcome}
        )
        # A row knows its marker where one range read both: of one audit here, and of two ranges that meet at a third.
        audit_id, border = place["audit_id"], (CUT if place["log_offset"] >= CUT else 0) + CUT // 3
        for row in self.commits:
            same = row["audit_id"] == audit_id and (row["log_offset"] < border) == (place["log_offset"] < border)
            if row["producer_id"] == producer_id and row["log_offset"] >= (start or 0) and start is not None and same:
                row |= {"outcome": outcome, "marker_offset": place["log_offset"]}

    def _compare(self, log_offset: int, removed_by: int) -> None:
        now = self.committed()
        for slot, record in self.decided.items():
            if slot not in self.changed and now.get(slot) != record:
                self.changed[slot] = (now.get(slot, removed_by), slot not in now)


def tables_of(logs: list[RandomLog], expire: set[tuple[int, Slot]]) -> dict[str, pa.Table]:
    """The tables of a lake: audit 1 read up to the cut and decided, audit 2 the rest. `expire`: what is to expire, the
    others are to be kept until half of what came after the cut."""
    previous, now = [], []
    for log in logs:
        for slot, record in log.decided.items():
            row = _slot(log.partition, slot) | {"audit_id": 2, "decided_by": 1, "log_offset": record}
            decision = "expire" if (log.partition, slot) in expire else "keep"
            expires_at = at(CUT if decision == "expire" else (CUT + LENGTH) // 2)
            previous.append({**row, "decision": decision, "expires_at": expires_at})
        now += [_slot(log.partition, slot) | {"log_offset": record} for slot, record in log.committed().items()]
    return {
        "previous_offset_expiry": rows_of("previous_offset_expiry", *previous),
        "committed_offsets": rows_of("committed_offsets", *now),
        "offset_commits": rows_of("offset_commits", *(row for log in logs for row in log.commits)),
        "transaction_markers": rows_of("transaction_markers", *(row for log in logs for row in log.markers)),
        "audits": rows_of("audits", _audit(1, 0, CUT, logs), _audit(2, CUT, LENGTH, logs)),
    }


def _slot(partition: int, slot: Slot) -> dict[str, Any]:
    return {"offsets_partition": partition, "group_id": slot[0], "topic": slot[1], "partition": slot[2]}


def _audit(audit_id: int, start: int, end: int, logs: list[RandomLog]) -> dict[str, Any]:
    read = [{"offsets_partition": log.partition, "start_offset": start, "end_offset": end} for log in logs]
    return {"audit_id": audit_id, "status": "finished", "as_of": at(end), "partitions": read}


def expected_outcomes(logs: list[RandomLog], expire: set[tuple[int, Slot]]) -> dict[tuple[int, Slot], tuple[str, Any]]:
    """Outcome and the record that made it, by partition and slot."""
    outcomes = {}
    for log in logs:
        for slot in log.decided:
            key = (log.partition, slot)
            record, is_gone = log.changed.get(slot, (None, False))
            if key in expire:
                seen = "still_there" if record is None else "removed" if is_gone else "kept_alive"
                outcomes[key] = (seen, record)
            elif is_gone and record is not None:
                outcomes[key] = ("removed" if record >= (CUT + LENGTH) // 2 else "not_foreseen", record)
    return outcomes
