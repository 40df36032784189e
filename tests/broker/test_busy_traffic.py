"""Audits of a log that is written and cleaned all the time: their offsets lie between those of the broker's Admin API
just before and just after."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.broker.brokers import Brokers
from tests.broker.busy_traffic import ALWAYS_CLEANED, BusyTraffic, Committed
from tests.broker.live_audits import last_finished, live_audit
from tests.nights.lakes import assert_every_record_is_in_one_table, rows

pytestmark = [pytest.mark.spark, pytest.mark.soak]

AUDITS = 20


def in_lake(lake: Path) -> Committed:
    found: Committed = {}
    for row in rows(lake, "committed_offsets"):
        found.setdefault(row["group_id"], {})[row["partition"]] = row["committed_offset"]
    return found


def test_twenty_audits_during_the_traffic(spark: SparkSession, tmp_path: Path) -> None:
    """Every other one goes on in a lake; every other one begins a new lake."""
    with Brokers("4.3.1", tmp_path / "brokers", ALWAYS_CLEANED) as brokers, BusyTraffic(brokers.address) as traffic:
        for number in range(AUDITS):
            lake = tmp_path / ("nightly" if number % 2 else f"fresh-{number}")
            before = traffic.committed()
            live_audit(spark, lake, brokers.address)
            after = traffic.committed()
            found = in_lake(lake)
            assert found.keys() == before.keys()
            stale = {
                (group, partition): (before[group].get(partition), offset, after[group][partition])
                for group, offsets in found.items()
                for partition, offset in offsets.items()
                if not before[group].get(partition, 0) <= offset <= after[group][partition]
            }
            assert stale == {}, f"audit {number}"
            assert {group: set(offsets) for group, offsets in found.items()} == {g: set(o) for g, o in before.items()}
            assert_every_record_is_in_one_table(lake)
            row = last_finished(lake)
            gone = sum(each["offsets_missing"] for each in row["partitions"])
            print(f"audit {number}: {traffic.commits} commits, {gone} offsets gone, {row['notes']}")  # noqa: T201
