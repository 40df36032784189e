"""Control records. The key is version i16, type i16; the value of a transaction's marker is version i16, coordinator
epoch i32 (Kafka: ControlRecordType.java, EndTransactionMarker.java 4.3.1)."""

from __future__ import annotations

import struct

ABORT, COMMIT = 0, 1
_NAMES = {ABORT: "ABORT", COMMIT: "COMMIT"}


def control_type(key: bytes | None) -> int | None:
    """The type; None: the key is too short to have one."""
    return None if key is None or len(key) < 4 else int(struct.unpack_from(">h", key, 2)[0])


def control_type_name(number: int) -> str:
    """ABORT, COMMIT, or another type's number as text."""
    return _NAMES.get(number, str(number))


def coordinator_epoch(value: bytes | None) -> int | None:
    """The epoch of the transaction coordinator that wrote the marker; None: the value is too short to have one."""
    return None if value is None or len(value) < 6 else int(struct.unpack_from(">i", value, 2)[0])
