"""The contract's keys, and one row for each record read (R1), for hostile input."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from kgroups_spark.messages import coordinator_records
from kgroups_spark.messages.offset_commits import OffsetKeys
from kgroups_spark.replay import range_decoder
from kgroups_spark.replay.range_decoder import RangeDecoder
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import one_of
from tests.logs.cleaner import GrowingLog
from tests.logs.damaged_logs import damaged
from tests.logs.dense_logs import dense_log, offset_commit
from tests.logs.forgetful_logs import forgetful_log, forgetful_night
from tests.logs.log_files import random_cuts
from tests.logs.night_logs import logs, reported
from tests.nights.cleaned_nights import Nights
from tests.nights.nights_here import How, audit, audit_nights
from tests.records.build import batch, message, wrapper

STAMPS = (1_700_000_000_000, -1, 0, 2**61, 2**62, 253_402_300_800_000, 2**63 - 1)


def require_keys(audited):
    """History and current tables must have each key once, and each record read must be in one of the log's tables."""
    for name in (name for name, table in TABLES.items() if table.kind in ("history", "current")):
        keys = Counter(tuple(row.values()) for row in audited.table(name).select(TABLES[name].key).to_pylist())
        assert [key for key, times in keys.items() if times > 1] == [], name
    assert audited.record_count() == audited.records_read()
    counted = sum(row["commits"] + row["tombstones"] for row in audited.rows("group_traffic"))
    assert counted == len(audited.table("offset_commits"))


def one_file(data):
    return {f"__consumer_offsets-0/{0:020}.log": data}


def hostile_log(seed):
    """Compressed messages of the old formats whose offsets overlap or are negative, times of any size, damage whose
    offset is unknown beside records that cannot be read."""
    rng, data, offset = random.Random(seed), b"", 0
    for _ in range(25):
        kind = rng.randrange(5)
        if kind == 0:
            magic = rng.choice([0, 1])
            inner = sorted(rng.choice([offset, offset + 2, offset - 5, -3, 0, 2**62]) + i for i in range(3))
            messages = [message(at, *offset_commit(rng), magic=magic) for at in inner]
            data += wrapper(rng.choice([offset + 2, 0]), messages, magic=magic)
        elif kind == 1:
            data += rng.randbytes(rng.choice([20, 200]))
        elif kind == 2:
            data += batch(offset, [(b"\0\x63key", b"v"), (None, b"v")], base_timestamp=rng.choice(STAMPS))
        else:
            stamp = rng.choice(STAMPS)
            data += batch(offset, [offset_commit(rng) for _ in range(3)], base_timestamp=stamp, max_timestamp=stamp)
        offset += rng.choice([3, 3, 9])
    return data


@pytest.mark.parametrize("seed", one_of(*range(60)))
def test_keys_hold_for_hostile_logs(seed):
    require_keys(audit(one_file(hostile_log(seed)), How("4.3", chunk_bytes=(None, 1000)[seed % 2])))


@pytest.mark.parametrize("seed", one_of(*range(20)))
def test_keys_hold_for_damaged_logs(seed):
    rng = random.Random(seed)
    require_keys(audit(damaged(damaged(dense_log(seed), rng), rng), How(rng.choice(["4.3", "3.9"]))))


def test_keys_hold_for_logs_that_are_cut(chosen):
    """Into nights, and each night of a partition into ranges, which hold records of the same groups and hours."""
    for seed in chosen.some(range(60), 1):
        files, rng = dense_log(seed), np.random.default_rng(seed)
        cuts = random_cuts(files, rng, nights=int(rng.integers(1, 4)), ranges=int(rng.integers(2, 5)))
        how = How(("4.3", "3.9")[seed % 2], chunk_bytes=(None, 256)[seed // 2 % 2])
        audited = audit_nights(files, cuts, how)
        require_keys(audited)
        require_keys(audited.rebuilt(how))
        assert audited.traffic() == audit(files, how).traffic(), seed


def test_keys_hold_for_partitions_that_are_read_again(monkeypatch, chosen):
    """Their log is cleaned between the nights, of which each is cut at its segments."""
    numbers = []
    begun = RangeDecoder.__init__

    def noted(self, ranges, *rest):
        numbers.extend(each.number for each in ranges)
        begun(self, ranges, *rest)

    monkeypatch.setattr(RangeDecoder, "__init__", noted)
    for seed in chosen.some(range(30), 1):
        log, nights = GrowingLog(forgetful_log(seed)), Nights(How(in_ranges=True))
        for left in range(5, 0, -1):
            forgetful_night(log, left)
            nights.audit(log.files, full=left % 2 == 1)
        require_keys(nights.audited)
        assert max(numbers) > 0, seed
        require_keys(nights.audited.rebuilt(nights.how))


def test_remembered_keys_are_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(coordinator_records, "MOST_BYTES", 500)
    decoder = coordinator_records.GroupRecordDecoder()
    for number in range(100):
        decoder.decode(b"\0\2\0\x40" + b"%064d" % number, None)
        assert sum(map(len, decoder._known_keys)) <= 500
    assert decoder._known_keys


@pytest.mark.parametrize("release", one_of("4.3", "3.9"))
def test_forgetting_keys_of_commits_above_a_limit_of_bytes_does_not_change_rows(release, monkeypatch, chosen):
    """Also those of a transaction whose marker comes when its keys have been forgotten."""
    forgotten = 0
    begun = OffsetKeys.__init__

    def counted(self):
        nonlocal forgotten
        forgotten += 1
        begun(self)

    for log in chosen.some(sorted(logs(release)), 1):
        files = logs(release)[log]
        whole = reported(audit(files, How(release, chunk_bytes=512)), files)
        with monkeypatch.context() as small:
            small.setattr(range_decoder, "KEYS_BYTES", 300)
            small.setattr(OffsetKeys, "__init__", counted)
            assert reported(audit(files, How(release, chunk_bytes=512)), files) == whole, log
    assert forgotten > 20 or not chosen.every
