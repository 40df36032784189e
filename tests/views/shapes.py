"""The shape of a view: names and types of its columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def shape(data_type: Any) -> Any:
    """A type by the names and types of what is in it, without what engines call elements of lists."""
    if isinstance(data_type, pa.Schema) or pa.types.is_struct(data_type):
        return [(field.name, shape(field.type)) for field in data_type]
    if pa.types.is_map(data_type):
        return [shape(data_type.key_type), shape(data_type.item_type)]
    return [shape(data_type.value_type)] if pa.types.is_list(data_type) else str(data_type).replace("[us, tz=UTC]", "")
