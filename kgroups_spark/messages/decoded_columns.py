"""Keys and values of records of any coordinator's log, as Arrow columns: the result of the public `decode`.

Keys and values are JSON with Kafka's own field names. Protocol blobs in values of groups are parsed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pyarrow as pa

from kgroups_spark.messages.coordinator_logs import GROUP_LOG, SHARE_LOG, TRANSACTION_LOG
from kgroups_spark.messages.coordinator_records import CoordinatorRecordDecoder
from kgroups_spark.messages.group_records import GroupRecordDecoder
from kgroups_spark.messages.outcome import Undecodable

DECODED = pa.struct(
    [
        pa.field("record_type", pa.int16()),
        pa.field("record_name", pa.string()),
        pa.field("group_id", pa.string()),
        pa.field("transactional_id", pa.string()),
        pa.field("record_key", pa.string()),
        pa.field("value_version", pa.int16()),
        pa.field("record_value", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
Decoded = tuple[Any, ...]
_NOTHING: Decoded = (None,) * DECODED.num_fields
OTHER_TOPIC = "other_topic"


def _undecoded(topic: str | None) -> Decoded:
    if topic is None:
        return _NOTHING
    said = f"topic {topic} is not a coordinator's log" if topic else "the row has no topic"
    detail = f"{said}; for a copy of a log give its name as the argument topic: decode(frame, '{GROUP_LOG.topic}')"
    return (*_NOTHING[:-2], OTHER_TOPIC, detail)


class RecordsDecoder:
    """Decodes records of all logs one at a time; caches keys."""

    def __init__(self) -> None:
        decoders = (GroupRecordDecoder(), *map(CoordinatorRecordDecoder, (SHARE_LOG, TRANSACTION_LOG)))
        self._of_log = {decoder.log.topic: decoder for decoder in decoders}

    def decode(self, topics: Iterable[str | None], keys: pa.Array, values: pa.Array) -> pa.StructArray:
        """A row of DECODED for each record: with the reason OTHER_TOPIC if the topic is not a coordinator's log (`""`:
        it is unknown), all nulls if it is null."""
        records = zip(topics, keys.to_pylist(), values.to_pylist(), strict=True)
        rows = [
            self._row(self._of_log[topic], key, value) if topic in self._of_log else _undecoded(topic)
            for topic, key, value in records
        ]
        columns = list(zip(*rows, strict=True)) or [() for _ in DECODED]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, DECODED, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=list(DECODED))

    def _row(self, decoder: CoordinatorRecordDecoder, key: bytes | None, value: bytes | None) -> Decoded:
        record = decoder.decode(key, value)
        if isinstance(record, Undecodable):
            whose = (record.record_type, record.record_name, record.group_id, record.transactional_id)
            return (*whose, None, record.value_version, None, record.reason, record.detail)
        fields = record.key
        return (
            record.record_type,
            record.record_name,
            fields.get("groupId", fields.get("group")),
            fields.get("transactionalId"),
            orjson.dumps(fields).decode(),
            record.value_version,
            record.value_json(),
            None,
            None,
        )
