"""The decisions by which offsets expire and groups are deleted, as of one moment, for the current tables."""

from __future__ import annotations

from kgroups_spark.audit.decide_by_parts import decide_by_parts
from kgroups_spark.audit.decide_by_spark import decide_by_spark
from kgroups_spark.audit.judging import Judging
from kgroups_spark.tables.lake import Lake
from kgroups_spark.tables.writer import LakeWriter


def decide(lake: Lake, writer: LakeWriter, *, as_of_ms: int, retention_ms: int, release_version: str) -> None:
    """Rewrites offset_expiry and group_expiry from the other current tables, and keeps what was decided of offsets
    before: previous_offset_expiry has the last finished audit's decisions, whatever one that was killed left since."""
    judging = Judging(as_of_ms, retention_ms, release_version, writer.audit_id)
    if writer.name == "parts":
        decide_by_parts(lake, writer, judging)
    else:
        decide_by_spark(lake, writer, judging)
