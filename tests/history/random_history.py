"""Random rows of history, as audits might have written them, of one or several offsets partitions; and reduced ones."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from kgroups_spark.audit.keep import STORED, Reduction
from kgroups_spark.lake.replaced import NOTHING, Replaced
from kgroups_spark.replay.shard_states import Horizons
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from tests.lake.table_rows import rows_of
from tests.protocol.fake_delta import answer

Row = dict[str, Any]

NAMES = (
    "offset_commits",
    "group_records",
    "quarantine",
    "group_versions",
    "group_member_versions",
    "transaction_markers",
)


def commit(
    log_offset: int,
    group_id: str = "g",
    *,
    partition: int = 0,
    value: bool = True,
    producer: int | None = None,
    transactional: bool | None = None,
    **more: Any,
) -> Row:
    """A record of offset_commits; of a transaction if it has a producer and nothing else is said."""
    return {
        "log_offset": log_offset,
        "group_id": group_id,
        "topic": "t",
        "partition": partition,
        "record_type": 1,
        "value_version": 3 if value else None,
        "committed_offset": 7 if value else None,
        "producer_id": producer,
        "is_transactional": producer is not None if transactional is None else transactional,
        **more,
    }


def marker(log_offset: int, producer: int | None, start: int | None, outcome: str | None = "committed") -> Row:
    """A record of transaction_markers."""
    return {
        "log_offset": log_offset,
        "producer_id": producer,
        "transaction_start_offset": start,
        "outcome": outcome,
        "control_type": 1,
    }


@cache
def something(name: str) -> Row:
    """A row of nothing."""
    row: Row = rows_of(name, {}).to_pylist()[0]
    return row


class RandomLog:
    """Rows of one offsets partition, as one or several audits might have written them."""

    def __init__(self, rng: random.Random, partition: int) -> None:
        self.rng, self.partition = rng, partition
        self.tables: dict[str, list[Row]] = {name: [] for name in NAMES}

    def write(self, places: Iterable[int], began: dict[int, int], audit_id: int) -> None:
        """The rows of an audit; `began`: where open transactions began."""
        written: list[tuple[str, Row]] = []
        for log_offset in places:
            producer = self.rng.choice([None, None, 1, 2])
            if producer is not None and self.rng.random() < 0.3:
                written.append(("transaction_markers", self._marker(log_offset, producer, began)))
            else:
                written += self._record(log_offset, producer, began)
        place = {"offsets_partition": self.partition, "audit_id": audit_id}
        for name, row in written:
            self.tables[name].append(something(name) | row | place)
        self._tell(audit_id)

    def _marker(self, log_offset: int, producer: int, began: dict[int, int]) -> Row:
        outcome = self.rng.choice(["committed", "aborted", "aborted", None])
        return marker(log_offset, producer, began.pop(producer, None) if outcome else None, outcome)

    def _record(self, log_offset: int, producer: int | None, began: dict[int, int]) -> Iterator[tuple[str, Row]]:
        choice = self.rng.choice
        of: Row = {"log_offset": log_offset, "producer_id": producer}
        is_transactional = producer is not None and (producer in began or self.rng.random() < 0.8)
        if producer is not None and is_transactional:
            began.setdefault(producer, log_offset)
        of |= {"is_transactional": is_transactional, "group_id": choice("gh"), "raw_key": choice([None, None, b"k"])}
        kind = self.rng.random()
        if kind < 0.6:
            topic = {"topic": choice("tu"), "partition": choice([0, 0, 7]), "record_type": choice([0, 1, 1])}
            yield "offset_commits", commit(log_offset, value=self.rng.random() < 0.8) | topic | of
        elif kind < 0.85:
            more = {"record_type": choice([2, 3, 5]), "member_id": choice([None, "m", "n"])}
            yield "group_records", of | more | {"regular_expression": choice([None, "a*"])}
            yield "group_versions", {"log_offset": log_offset, "group_id": of["group_id"]}
            for member_id in ("m", "n")[: self.rng.randint(0, 2)]:
                yield "group_member_versions", {k: of[k] for k in ("log_offset", "group_id")} | {"member_id": member_id}
        else:
            reason = choice(["unknown_record_type", "unknown_value_version", "truncated"])
            more = {"reason": reason, "record_count": choice([0, 1]), "resolved_by": choice([None, None, 3])}
            yield "quarantine", of | more

    def _tell(self, audit_id: int) -> None:
        """Some rows know the marker that the same audit read."""
        markers = [each for each in self.tables["transaction_markers"] if each["audit_id"] == audit_id]
        for row in self.tables["offset_commits"]:
            for each in markers:
                start, is_its = each["transaction_start_offset"], each["producer_id"] == row["producer_id"]
                is_its &= row["is_transactional"] and row["audit_id"] == audit_id and row["log_offset"] % 3 > 0
                if is_its and start is not None and start <= row["log_offset"] < each["log_offset"]:
                    row |= {"outcome": each["outcome"], "marker_offset": each["log_offset"]}


def random_tables(rng: random.Random, partitions: int) -> dict[str, list[Row]]:
    """Rows of so many offsets partitions, by table, of two audits."""
    logs = [RandomLog(rng, partition) for partition in range(partitions)]
    for log in logs:
        began: dict[int, int] = {}
        half = rng.randint(1, 40)
        log.write(range(half), began, 1)
        log.write(range(half, half + rng.randint(1, 40)), began, 2)
    return {name: [row for log in logs for row in log.tables[name]] for name in NAMES}


def in_order(rows: Iterable[Row]) -> list[str]:
    """The rows as text, in an order of their own."""
    return sorted(map(repr, rows))


def as_tables(tables: Mapping[str, Sequence[Row]]) -> dict[str, pa.Table]:
    """The rows as Arrow tables."""
    return {name: rows_of(name, *rows) for name, rows in tables.items()}


def reduced(
    tables: Mapping[str, pa.Table],
    horizons: Mapping[int, int],
    state_horizons: Mapping[tuple[str, int], int] | None = None,
    replaced: Replaced = NOTHING,
) -> dict[str, pa.Table]:
    """The rows of the tables that the product keeps. Tables that it reads but that are not given are empty."""
    given = {f"{STORED}{name}": tables.get(name, rows_of(name)) for name in TABLES}
    of: Horizons = {**{(None, number): at for number, at in horizons.items()}, **(state_horizons or {})}
    reduction = Reduction(of, replaced)
    return {name: answer(reduction.rows_left(name), given).cast(arrow_schema(name)) for name in tables}
