"""Records with flipped, cut and added bytes: whatever decodes is replayed, or fails as a record that Kafka fails on."""

from __future__ import annotations

import random

import pytest

from kgroups_spark.coordinator.releases import ReplayFailure, release
from kgroups_spark.messages.coordinator_records import CoordinatorRecord, GroupRecordDecoder
from kgroups_spark.replay.state import loaded, saved
from tests.chosen import one_of
from tests.coordinator.generated_logs import raw_records
from tests.messages.compared import changed
from tests.twin.saved_shards import state_of
from tests.twin.shard import Shard

VERSIONS = ("4.3", "4.1", "4.0.0", "3.7-java", "3.9", "2.8")


@pytest.mark.parametrize("version", one_of(*VERSIONS))
def test_noise_in_group_records_never_breaks_the_replay(version):
    choice = random.Random(version)
    shard, decoder, replayed, failed = Shard(release(version), 0, recording=True), GroupRecordDecoder(), 0, 0
    for offset, (key, value) in enumerate(raw_records()):
        record = decoder.decode(key, None if value is None else changed(choice, value))
        if isinstance(record, CoordinatorRecord):
            names = record.group_id, record.member_id, record.regular_expression
            try:
                shard.replay_group_record(offset, 0, record.record_type, *names, record.value)
                replayed += 1
            except ReplayFailure:
                failed += 1
        if offset % 500 == 0:
            rows = saved(state_of(shard))
            assert saved(loaded(rows, shard.release)).equals(rows)
            assert len(list(shard.group_rows())) == len(shard.groups)
            list(shard.member_rows())
    assert replayed > 200
    assert failed > 10 or version == "3.9"
    assert shard.take_changes()
