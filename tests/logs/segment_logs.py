"""The logs of __consumer_offsets in folders of segment files."""

from __future__ import annotations

from collections.abc import Sequence

from kgroups_spark.sources.partition_log import PartitionLog
from kgroups_spark.sources.segment_log import SegmentLog
from kgroups_spark.sources.segments import find_partitions


def segment_logs(folders: Sequence[str]) -> list[PartitionLog]:
    """Every copy of every partition."""
    return [SegmentLog(copy) for copy in find_partitions(folders)]
