"""The entries of a saved state as state format 1 had them, offset by offset: a group's row and a producer's row hold
their offsets. The slow way to look at the state, and the form that a shard of objects saves and loads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kgroups_spark.coordinator.state_entries import StateRow

Row = dict[str, Any]
VALUE = ("committed_offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id")


def entries(rows: Iterable[Row]) -> list[StateRow]:
    """Entries of one offsets partition in either format, without those that every state has."""
    found: dict[tuple[str, Any], tuple[str | None, Row]] = {}
    others = []
    offsets = []
    for row in rows:
        kind, group_id = row["entry_type"], row["group_id"]
        if kind == "offset":
            offsets.append(row)
        elif kind in ("group", "producer"):
            payload = json.loads(row["payload"])
            found[kind, payload["producer_id"] if kind == "producer" else group_id] = (group_id, payload)
        elif kind != "topics":
            others.append(StateRow(kind, group_id, row["payload"]))
    for row in offsets:
        offset = [row["topic"], row["partition"], row["record_offset"], row["record_type"], _or(row, "producer_epoch")]
        offset += [_or(row, name) if name == "commit_timestamp" else row[name] for name in VALUE]
        offset.append(row["value_version"])
        producer, group_id = row["producer_id"], row["group_id"]
        if producer is None:
            orphans = (group_id, {"group": None, "offsets": []})
            found.setdefault(("group", group_id), orphans)[1]["offsets"].append(offset)
        else:
            nothing = (None, {"producer_id": producer, "transaction": None, "pending": None})
            payload = found.setdefault(("producer", producer), nothing)[1]
            payload["pending"] = [*(payload["pending"] or ()), [group_id, *offset]]
    plain = [StateRow(kind, group_id, json.dumps(payload)) for (kind, _), (group_id, payload) in sorted(found.items())]
    return plain + others


def _or(row: Row, name: str) -> int:
    """Kafka's -1 where there is none."""
    return -1 if row[name] is None else int(row[name])
