"""The state of partitions whose log was cut back, as it was where the log still is as it was read."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import functions as F

from kgroups_spark.audit.saved_state import SavedState, state_of_audit
from kgroups_spark.audit.work import AuditWork
from kgroups_spark.history.baseline_rows import state_at
from kgroups_spark.lake.last_finished import REBUILD_APP_ID


def restored_state(work: AuditWork) -> SavedState:
    """The saved state with that of these partitions made of history before the cut; of the others it stays.

    It is written beside the one that it was made of, so that an audit that is killed can be done again.
    """
    cuts = {number: cut.from_offset for number, cut in work.plan.replaced.items()}
    work.progress(f"replaying what stood before the cut of {len(cuts)} partitions")
    lake, release_version = work.lake, work.settings.release_version
    states = state_at(lake, cuts, release_version, work.audit_id).where("entry_type <> 'topics'")
    if work.state.audit_id is not None:
        others = lake.read("coordinator_state").where(F.col("audit_id") == work.state.audit_id)
        others = others.where(~F.col("offsets_partition").isin(*cuts))
        states = states.unionByName(others.withColumn("audit_id", F.lit(work.audit_id).cast("bigint")))
    writer = replace(work.writer, app_id=REBUILD_APP_ID)
    writer.replace("coordinator_state", states, work.state.kept_audit_id)
    return replace(state_of_audit(lake, work.audit_id), kept_audit_id=work.state.kept_audit_id)
