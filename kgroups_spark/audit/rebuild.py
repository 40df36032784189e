"""The coordinator state made anew from the history tables, as of the last finished audit (R3, R7)."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgroups_spark.audit.history_replay import replay_rows_of_history
from kgroups_spark.audit.stages import replay_frame
from kgroups_spark.audit.work import AuditWork

# Nothing that a rebuild replays is history yet to be written.
NEVER = (1 << 63) - 1


def rebuilt_state(work: AuditWork) -> DataFrame:
    """Rows of coordinator_state: the replay of all history that finished audits have written, by this audit's rules."""
    last = work.before.audit_id if work.before else 0
    counts = F.col("audit_id") <= last
    history = [
        work.lake.read(name).where(counts)
        for name in ("offset_commits", "group_records", "transaction_markers", "quarantine")
    ]
    context = replace(work.replay_context([]), history_from=dict.fromkeys(work.shards, NEVER))
    replayed = replay_frame(replay_rows_of_history(*history), min(len(work.shards), 2 * work.slots), context)
    return replayed.where("coordinator_state IS NOT NULL").select("coordinator_state.*")
