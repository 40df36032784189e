"""Quarantine by the rules of a release, for history that was read under another release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.decoding.record_rows import misread_detail
from kgroups_spark.messages.group_records import EARLY_ACCESS, layout_from_json
from kgroups_spark.offsets.records import milliseconds


def coordinator_fails(quarantine: pa.Table, release: Release) -> pa.ChunkedArray:
    """Whether the release's load would fail at each undecodable record (decoding/record_rows.py)."""
    types = quarantine.column("record_type")
    if not release.skips_unknown_types:
        return pa.chunked_array([pa.repeat(True, len(types))])
    known = pa.array(sorted(release.record_types | release.unreplayable_types), types.type)
    return pc.or_(pc.is_in(types, known), pc.is_null(types))


def misread(group_records: pa.Table, release: Release, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The values in early-access layouts that the release does not read (T58): these columns, with times in epoch ms,
    and the reason as `detail`."""
    early = [number for number in EARLY_ACCESS if number in release.record_types]
    values = group_records.filter(pc.field("record_type").isin(early) & pc.field("value").is_valid())
    found = []
    asked = [*dict.fromkeys([*columns, "record_type", "record_name", "value"])]
    values = values.select(asked)
    if "log_timestamp" in asked:
        at = asked.index("log_timestamp")
        values = values.set_column(at, "log_timestamp", milliseconds(values.column(at)))
    for row in values.to_pylist():
        layout = layout_from_json(row["record_type"], row["value"])
        if not release.reads_layout(layout):
            found.append(
                {name: row[name] for name in columns} | {"detail": misread_detail(row["record_name"], layout, release)}
            )
    return found
