"""Replay rows from the history tables: what a rebuild replays, and what Spark's writer replays of a night."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kgroups_spark.audit.replay_rows import (
    CORRECTION,
    MARKER,
    RECORD,
    REPLAY_ROWS_SPARK,
    STATE,
    TOMBSTONE,
    UNREADABLE,
    VALUE,
)
from kgroups_spark.coordinator.state_rows import STATE_FORMAT


def replay_rows_of_history(
    offset_commits: DataFrame, group_records: DataFrame, transaction_markers: DataFrame, quarantine: DataFrame
) -> DataFrame:
    """One replay row for each record that any of the history tables holds, in no order."""
    frames = [
        _commits(offset_commits),
        _group_records(group_records),
        _markers(transaction_markers),
        _unreadable(quarantine),
    ]
    return reduce(DataFrame.unionByName, frames)


def replay_rows_of_state(coordinator_state: DataFrame) -> DataFrame:
    """The saved state as replay rows, which sort before the records."""
    return coordinator_state.select(
        *_columns(
            offsets_partition=F.col("offsets_partition"),
            kind=F.lit(STATE),
            outcome=F.col("entry_type"),
            group_id=F.col("group_id"),
            text=F.col("payload"),
        )
    )


def replay_rows_of_corrections(state_corrections: DataFrame) -> DataFrame:
    """The corrections `put` and `remove` as replay rows, which sort before the records at their log offset.

    The newest audit's counts among several of one entry at one place. A `put` of another state format is left
    out: nobody can read it any more. (Rows `baseline` are a state: `replay_rows_of_state` takes them as they are; rows
    `wait` have changed nothing.)
    """
    is_put = (F.col("correction") == "put") & (F.col("state_format") == STATE_FORMAT)
    one = state_corrections.where(is_put | (F.col("correction") == "remove"))
    producer_id = F.get_json_object("payload", "$.producer_id")
    entry = Window.partitionBy("offsets_partition", "log_offset", "entry_type", "group_id", producer_id)
    newest = one.withColumn("is_newest", F.col("audit_id") == F.max("audit_id").over(entry)).where("is_newest")
    return newest.select(
        *_columns(
            offsets_partition=F.col("offsets_partition"),
            log_offset=F.col("log_offset"),
            kind=F.lit(CORRECTION),
            outcome=F.col("entry_type"),
            group_id=F.col("group_id"),
            text=F.col("payload"),
        )
    )


def _commits(frame: DataFrame) -> DataFrame:
    return frame.select(
        *_columns(
            **_place(),
            kind=F.when(F.col("value_version").isNull(), TOMBSTONE).otherwise(VALUE),
            record_type=F.col("record_type"),
            value_version=F.coalesce("value_version", F.lit(-1)),
            producer_id=_or_none("producer_id"),
            producer_epoch=_or_none("producer_epoch"),
            is_transactional=F.col("is_transactional"),
            group_id=F.col("group_id"),
            topic=F.col("topic"),
            partition=F.col("partition"),
            committed_offset=F.col("committed_offset"),
            leader_epoch=_or_none("leader_epoch"),
            metadata=F.col("metadata"),
            commit_timestamp=_ms("commit_timestamp"),
            expire_timestamp=_ms("expire_timestamp"),
            topic_id=F.col("topic_id"),
            # Where the columns do not say everything, a time may be one of those that no TIMESTAMP holds.
            raw_value=F.col("raw_value"),
        )
    )


def _group_records(frame: DataFrame) -> DataFrame:
    return frame.select(
        *_columns(
            **_place(),
            kind=F.lit(RECORD),
            record_type=F.col("record_type"),
            value_version=F.col("value_version"),
            producer_id=_or_none("producer_id"),
            producer_epoch=F.lit(-1),
            is_transactional=F.col("is_transactional"),
            group_id=F.col("group_id"),
            member_id=F.col("member_id"),
            regular_expression=F.col("regular_expression"),
            text=F.col("value"),
        )
    )


def _markers(frame: DataFrame) -> DataFrame:
    return frame.select(
        *_columns(
            **_place(),
            kind=F.lit(MARKER),
            producer_id=_or_none("producer_id"),
            producer_epoch=_or_none("producer_epoch"),
            outcome=F.col("outcome"),
            coordinator_epoch=F.col("coordinator_epoch"),
            control_type=F.col("control_type"),
        )
    )


def _unreadable(frame: DataFrame) -> DataFrame:
    """Records in transactions that do not decode; of rows from before layout 5 those with a producer."""
    is_record = (F.col("reason") != "corrupt_batch") & (F.col("record_count") > 0)
    is_transactional = F.coalesce("is_transactional", F.col("producer_id").isNotNull())
    return frame.where(is_record & is_transactional).select(
        *_columns(**_place(), kind=F.lit(UNREADABLE), producer_id=F.col("producer_id"), producer_epoch=F.lit(-1))
    )


def _place() -> dict[str, Column]:
    return {
        "offsets_partition": F.col("offsets_partition"),
        "log_offset": F.col("log_offset"),
        "log_timestamp": _ms("log_timestamp"),
    }


def _ms(name: str) -> Column:
    return F.coalesce(F.unix_millis(name), F.lit(-1))


def _or_none(name: str) -> Column:
    return F.coalesce(name, F.lit(-1))


def _columns(**columns: Column) -> list[Column]:
    """All columns of a replay row; those that are not given are null."""
    return [columns.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in REPLAY_ROWS_SPARK]
