"""The decisions by which offsets expire and groups are deleted, as of one moment, for the tables of now."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgroups_spark.audit.saved_state import state_files
from kgroups_spark.coordinator.releases import release
from kgroups_spark.expiry import group_expiry, offset_expiry
from kgroups_spark.tables.as_of_audit import LakeAsOfAudit
from kgroups_spark.tables.lake import Lake
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.tables.writer import LakeWriter


def decide(lake: Lake, writer: LakeWriter, *, as_of_ms: int, retention_ms: int, release_version: str) -> None:
    """Rewrites offset_expiry and group_expiry from the other tables of now, and keeps what was decided of offsets
    before."""
    _keep_previous(lake, writer)
    groups, pending = lake.read_files("groups"), lake.read_files("pending_offsets")
    offsets = offset_expiry(
        lake.read_files("committed_offsets"),
        groups,
        lake.read_files("group_members"),
        pending,
        as_of=as_of_ms,
        retention_ms=retention_ms,
        release_version=release_version,
        audit_id=writer.audit_id,
    )
    writer.replace("offset_expiry", offsets)
    decisions = group_expiry(
        lake.read_files("offset_expiry"),
        groups,
        pending,
        as_of=as_of_ms,
        retention_ms=retention_ms,
        release_version=release_version,
        audit_id=writer.audit_id,
        held_groups=_held_groups(lake) if release(release_version).open_transactions_by == "group" else None,
    )
    writer.replace("group_expiry", decisions)


def _held_groups(lake: Lake) -> DataFrame:
    """Groups for which producers are noted (3.8 to 4.0.0); the state of the audit before lies beside this one's."""
    noted = (F.col("entry_type") == "noted") & (F.col("audit_id") == max(state_files(lake), default=0))
    return lake.read_files("coordinator_state").where(noted).select("offsets_partition", "group_id").distinct()


def _keep_previous(lake: Lake, writer: LakeWriter) -> None:
    """Rewrites previous_offset_expiry: the last finished audit's decisions, whatever one that was killed left since."""
    before = LakeAsOfAudit.last_finished(lake)
    if before.audit_id == 0:
        return
    decided = before.read("offset_expiry").withColumn("decided_by", F.col("audit_id"))
    kept = decided.withColumn("audit_id", F.lit(writer.audit_id).cast("bigint"))
    writer.replace("previous_offset_expiry", kept.select(*TABLES["previous_offset_expiry"].schema.names))
