"""The nightly audit for spark-submit, as a pipeline: read, replay, write. The options are those of `kgroups audit`.

Reads segments of __consumer_offsets, a live cluster or an archive of records, and brings the lake up to date. A second
run reads only new records. A killed run leaves nothing that counts; the next one cleans up.

    spark-submit --properties-file conf/spark-cluster.conf jobs/nightly_audit.py \\
        --lake s3://bucket/kgroups --segments s3://bucket/kafka-logs --release-version 4.3

Exit codes are those of kgroups: 0 done, 1 failed, 2 bad usage, 3 something to look at with --strict.
"""

import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from kgroups_spark.audit.run import AuditOptions, AuditSummary, begin_audit
from kgroups_spark.cli.main import main as kgroups


def nightly_audit(spark: SparkSession, options: AuditOptions) -> AuditSummary:
    """One audit. Nothing counts before `finish` has written its row of the ledger.

    Tasks write rows as Parquet files of the lake's tables, and report the files. So what Spark moves is small, and each
    record is read once. Rows of a step that you leave out are refused, not lost.
    """
    with begin_audit(spark, options) as audit:  # claims the audit's number, plans what is new, clears up
        if audit.has_work:
            # __share_group_state and __transaction_state: the same on a smaller scale, in one action.
            audit.replay_state_logs()

            # Read: bytes -> rows of history. The rows of this RDD's record batches are ranges of one partition's log
            # (range, offsets_partition, start_offset, end_offset, size_bytes), of segment files or of a live cluster.
            # Each task has about as many bytes. There is a second action if the log has changed meanwhile.
            for ranges in audit.read():
                ranges.end(ranges.rows.mapPartitions(ranges.function))

            # Replay, as in mapGroupsWithState(key, values, state). The key is a partition of __consumer_offsets
            # (`shard`), the values are its new history in log order, the state is the group coordinator's: that of the
            # last audit in, rows of the current tables and the state of this audit out. A task has several keys, by
            # weight (`records`).
            shards = audit.replay()
            shards.end(shards.rows.mapPartitions(shards.function))

            # Write: the files become rows of Delta tables, by one commit each.
            audit.append_history()  # offset_commits, group_records, transaction_markers, group_events ...
            audit.replace_current()  # groups, group_members, committed_offsets, offset_expiry ...
            audit.save_state()  # checkpoints: where the next audit goes on

        return audit.finish()  # findings, then the ledger


def main(argv: Sequence[str]) -> int:
    """The exit code of `kgroups audit` with these options."""
    return kgroups(["audit", *argv], "nightly_audit.py", nightly_audit)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
