"""The newest log times in the ledger that count (decoding/log_times.py)."""

from __future__ import annotations

from kgroups_spark.decoding.log_times import CLOCKS_DIFFER_MS
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.times import to_epoch_ms


def believed_until(audit: AuditRow) -> int:
    """The epoch ms above which log times count nowhere after that audit."""
    newest = audit.newest_log_timestamp or audit.started_at
    return max(to_epoch_ms(newest), to_epoch_ms(audit.started_at) + CLOCKS_DIFFER_MS)


def known_times(audit: AuditRow | None, clock_ms: int) -> dict[int, int]:
    """The newest log time (epoch ms) of each offsets partition in the ledger, without times ahead of the clock: they
    would make all of history old."""
    partitions = (audit.partitions or ()) if audit else ()
    known = {p.offsets_partition: to_epoch_ms(p.newest_log_timestamp) for p in partitions if p.newest_log_timestamp}
    return {number: ms for number, ms in known.items() if ms <= clock_ms + CLOCKS_DIFFER_MS}
