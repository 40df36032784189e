"""Records of types 2 to 23 of `__consumer_offsets`, from their bytes and from `group_records`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from kgroups_spark.messages.coordinator_logs import GROUP_LOG
from kgroups_spark.messages.coordinator_records import CoordinatorRecord, CoordinatorRecordDecoder, record_of
from kgroups_spark.messages.group_metadata import ProtocolTexts
from kgroups_spark.messages.json_columns import group_metadata_texts
from kgroups_spark.messages.outcome import Undecodable
from kgroups_spark.messages.record_types import CONSUMER_OFFSETS
from kgroups_spark.messages.value_layouts import Content, early_access
from kgroups_spark.records.columns import RecordColumns


class JsonRecord(NamedTuple):
    """A record of types 2 to 23 as it is in `group_records`."""

    record_type: int
    group_id: str
    member_id: str | None
    regular_expression: str | None
    value_version: int | None
    text: str | None

    @property
    def record_name(self) -> str:
        return CONSUMER_OFFSETS[self.record_type].name

    @property
    def value(self) -> dict[str, Any] | None:
        return None if self.text is None else value_from_json(self.text)


def value_from_json(text: str) -> dict[str, Any]:
    """The value from its value_json(), for any record type."""
    value: dict[str, Any] = orjson.loads(text)
    return value


def layout_from_json(record_type: int, text: str) -> str:
    """The early-access layout of the value from which value_json() made the text; "" for any other.

    Fields that such a layout lacks come after its own, with fixed values.
    """
    value = orjson.loads(text) if record_type in EARLY_ACCESS else {}
    for layout, names, missing in EARLY_ACCESS.get(record_type, ()):
        if [*value] == [*names, *missing] and all(value[name] == absent for name, absent in missing.items()):
            return layout
    return ""


class GroupRecordDecoder(CoordinatorRecordDecoder):
    """Decodes the log's records one at a time, or a chunk's together; caches keys and protocol blobs."""

    def __init__(self) -> None:
        protocols = ProtocolTexts()
        super().__init__(GROUP_LOG, {2: protocols.group_metadata_json, 5: protocols.member_metadata_json})

    def decode_rows(self, records: RecordColumns, rows: NDArray[np.int64]) -> list[CoordinatorRecord | Undecodable]:
        """The same for records of a chunk. The JSON texts of plain GroupMetadata values are made together."""
        texts: list[str | None] = [None] * len(rows)
        big = np.flatnonzero(_is_group_metadata(records, rows) & (records.value_length[rows] > 0))
        made = group_metadata_texts(
            records.data, records.value_start[rows[big]], records.value_length[rows[big]]
        ).to_pylist()
        for at, text in zip(big.tolist(), made, strict=True):
            texts[at] = text
        return [self._decode_row(records, row, text) for row, text in zip(rows.tolist(), texts, strict=True)]

    def _decode_row(self, records: RecordColumns, row: int, text: str | None) -> CoordinatorRecord | Undecodable:
        """One record. `text`: the JSON of its value if that is plain, and therefore exact; else None."""
        key = records.key(row)
        if text is None:
            return self.decode(key, records.value(row))
        known = self._key(key)
        if isinstance(known, Undecodable):
            return known
        version = int(records.data[int(records.value_start[row]) + 1])
        return record_of(known, version, "", Content({}, [], None, text))


def _is_group_metadata(records: RecordColumns, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    starts = records.key_start[rows]
    is_type_2: NDArray[np.bool_] = (records.data[starts] == 0) & (records.data[starts + 1] == 2)
    return is_type_2 & (records.key_length[rows] >= 2)


EARLY_ACCESS = early_access(CONSUMER_OFFSETS)
