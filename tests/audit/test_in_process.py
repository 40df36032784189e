"""A log replayed in one process has the state that an audit of it finds."""

from pathlib import Path

import pytest

from kgroups_spark.audit.in_process import LogReplay, whole_log
from kgroups_spark.sources.segments import find_partitions
from tests.audit.pipeline import audit, read_folder

SEGMENTS = Path(__file__).parents[2] / "kgroups_spark" / "demo" / "segments"


@pytest.fixture(scope="module")
def audited():
    return audit(read_folder(SEGMENTS))


@pytest.mark.parametrize("groups", [True, False])
def test_offsets_are_those_of_an_audit(audited, groups):
    replay = LogReplay(groups=groups)
    found = {
        (shard.offsets_partition, *slot): commit.value.committed_offset
        for shard in replay.shards(map(whole_log, find_partitions([str(SEGMENTS)])))
        for slot, commit in shard.offsets.committed_offsets()
    }
    columns = ("offsets_partition", "group_id", "topic", "partition", "committed_offset")
    rows = [[row[name] for name in columns] for row in audited.rows("committed_offsets")]
    assert found == {tuple(key): offset for *key, offset in rows}
    assert replay.records == audited.records_read()


def test_groups_are_replayed_only_where_they_are_wanted(audited):
    logs = [whole_log(copy) for copy in find_partitions([str(SEGMENTS)])]
    with_groups = {group for shard in LogReplay().shards(logs) for group in shard.groups}
    assert with_groups == {row["group_id"] for row in audited.rows("groups")}
    without = [group for shard in LogReplay(groups=False).shards(logs) for group in shard.groups.values()]
    assert without and all(group.is_simple for group in without)
