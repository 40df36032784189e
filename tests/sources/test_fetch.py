from __future__ import annotations

import io
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from kgroups_spark.cluster import fetch
from kgroups_spark.cluster.fetch import FetchLimits
from kgroups_spark.cluster.live_log import PieceOpener
from kgroups_spark.cluster.requests import FetchAnswer, KafkaRefused
from kgroups_spark.errors import KgroupsError, NotReadable
from kgroups_spark.sources.partition_log import FetchPiece, LeaderLost, LogStartMoved
from tests.chosen import examples
from tests.records.build import batch, compress, message
from tests.sources.fake_cluster import LOG, TOPIC_ID, FakeCluster, fake_time, log_of, open_log, read, records

__all__ = ["fake_time"]

OTHER = FetchAnswer(b"", 15, None, diverges_at=3)


def fetched(cluster, start, end, **options):
    return read(open_log(cluster, start, end, **options))


def test_keep_first_adds_the_batch_that_holds_the_start():
    assert fetched(FakeCluster(LOG), 5, 14, keep_first=True) == b"".join(LOG[2:4])
    assert fetched(FakeCluster(LOG), 10, 14, keep_first=True) == LOG[3]


def wrapped(first, last, magic):
    """A compressed message of the old formats: its offset is that of the last message in it."""
    inner = b"".join(message(i - first if magic else i, b"k", b"v", magic=magic) for i in range(first, last + 1))
    return message(last, None, compress(1, inner), magic=magic, attributes=1)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("cut", [1, 2, 5, 6])
def test_a_compressed_message_belongs_to_the_range_of_its_first_record(magic, cut):
    log, firsts = [wrapped(0, 0, magic), wrapped(1, 4, magic), wrapped(5, 9, magic)], (0, 1, 5)
    before = sum(first < cut for first in firsts)
    assert fetched(FakeCluster(log), 0, cut) == b"".join(log[:before])
    assert fetched(FakeCluster(log), cut, 10) == b"".join(log[before:])


@st.composite
def logs(draw):
    """Batches of all formats with gaps between them."""
    batches: list[bytes] = []
    offset = draw(st.integers(0, 5))
    for kind in draw(st.lists(st.sampled_from([0, 1, 2, 2, 2]), min_size=1, max_size=12)):
        count = draw(st.integers(1, 4))
        if kind == 2:
            gap_behind = draw(st.integers(0, 2))  # records at the end of it were compacted away
            batches.append(batch(offset, records(count), last_offset_delta=count - 1 + gap_behind))
            count += gap_behind
        else:
            batches.append(wrapped(offset, offset + count - 1, kind))
        offset += count + draw(st.integers(0, 3))
    return batches


@examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(logs(), st.lists(st.integers(0, 60), max_size=4), st.integers(1, 400))
def test_law_adjoining_ranges_give_the_log(monkeypatch, log, cuts, size):
    monkeypatch.setattr(fetch, "RESPONSE_BYTES", size)
    end = FakeCluster(log).end
    edges = sorted({0, *(min(cut, end) for cut in cuts), end})
    assert b"".join(fetched(FakeCluster(log), a, b) for a, b in pairwise(edges)) == b"".join(log)


def test_an_empty_range_sends_no_request():
    cluster = FakeCluster(LOG)
    assert fetched(cluster, 7, 7) == b""
    assert cluster.requests == []


def test_a_gap_up_to_the_end_is_not_waited_for(fake_time):
    assert fetched(FakeCluster(LOG[:3], high_watermark=15), 0, 15) == b"".join(LOG[:3])
    assert fetched(FakeCluster([], log_start=15), 15, 15) == b""
    assert fake_time.slept.count(0.0) == len(fake_time.slept)  # a gap is no reason to wait


def test_a_new_leader_that_is_behind_is_waited_for(fake_time):
    def catches_up(cluster):
        cluster.high_watermark = None

    cluster = FakeCluster(LOG, high_watermark=4, script=[lambda _: None, lambda _: None, catches_up])
    assert fetched(cluster, 4, 15) == b"".join(LOG[2:])
    assert cluster.refreshed == 2


def test_a_leader_that_stays_behind_has_lost_the_end(fake_time):
    log = open_log(FakeCluster(LOG, high_watermark=4), 0, 15, timeout_ms=5000)
    with pytest.raises(NotReadable, match=r"t-0 was truncated: for 5 s its leader has returned nothing after offset 4"):
        read(log)


PASSING = [
    "FENCED_LEADER_EPOCH",
    "KAFKA_STORAGE_ERROR",
    "LEADER_NOT_AVAILABLE",
    "NETWORK_EXCEPTION",
    "NOT_LEADER_OR_FOLLOWER",
    "OFFSET_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "UNKNOWN_LEADER_EPOCH",
    "UNKNOWN_SERVER_ERROR",
    "UNKNOWN_TOPIC_ID",
    "UNKNOWN_TOPIC_OR_PARTITION",
]


@pytest.mark.parametrize("error", PASSING)
def test_transient_errors_are_retried(error, fake_time):
    cluster = FakeCluster(LOG, script=[error, error])
    assert fetched(cluster, 0, 15) == b"".join(LOG)
    assert cluster.refreshed == 2
    assert [request.offset for request in cluster.requests] == [0, 0, 0]


@pytest.mark.parametrize("error", [each for each in PASSING if not each.startswith("UNKNOWN_TOPIC")])
def test_errors_that_outlast_the_timeout_are_reported(error, fake_time):
    log = open_log(FakeCluster(LOG, always=error), 3, 15, timeout_ms=7000)
    with pytest.raises(LeaderLost, match=rf"t-0 has returned nothing from offset 3 on for 7 s: {error}$"):
        read(log)
    assert fake_time.now == pytest.approx(1007)


def test_progress_restarts_the_timeout(fake_time, monkeypatch):
    monkeypatch.setattr(fetch, "RESPONSE_BYTES", len(LOG[0]))

    def nothing_for_six_seconds(cluster):
        fake_time.now += 6

    hurdles: list[str] = ["NETWORK_EXCEPTION"]
    cluster = FakeCluster(LOG, script=[*hurdles, nothing_for_six_seconds] * 4)
    assert read(open_log(cluster, 0, 15, timeout_ms=7000)) == b"".join(LOG)
    assert fake_time.now > 1000 + 4 * 6


def test_a_broker_that_throttles_is_not_given_up(fake_time):
    def later(cluster):
        fake_time.now += 50
        return FetchAnswer(b"", -1, "THROTTLING_QUOTA_EXCEEDED")

    log = open_log(FakeCluster(LOG, script=["NETWORK_EXCEPTION", later] * 5), 0, 15, timeout_ms=60_000)
    assert read(log) == b"".join(LOG)
    assert fake_time.now > 1000 + 200


@pytest.mark.parametrize("error", ["UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PARTITION"])
def test_a_topic_that_was_deleted(error, fake_time):
    with pytest.raises(KgroupsError, match=rf"t-0 no longer exists: the cluster answered {error}"):
        fetched(FakeCluster(LOG, always=error, topic_id=None), 0, 15)
    assert fake_time.now < 1000 + 60


@pytest.mark.parametrize(
    ("cluster", "start", "error", "said"),
    [
        (FakeCluster([], topic_id="u" * 22), 4, KgroupsError, "created again"),
        (FakeCluster(LOG, always="CORRUPT_MESSAGE"), 4, NotReadable, "t-0: the leader cannot read its own log at o"),
        (FakeCluster(LOG, always="TOPIC_AUTHORIZATION_FAILED"), 0, KgroupsError, "grant READ on topic t"),
        (FakeCluster(LOG[:2]), 9, NotReadable, "it ends before offset 4, but was read up to offset 9"),
        (FakeCluster(LOG[3:], log_start=12), 4, LogStartMoved, "t-0 starts at offset 12: the records to read from off"),
        (FakeCluster(LOG, script=[OTHER]), 4, NotReadable, "its leader's log differs from offset 3 on"),
    ],
)
def test_a_log_that_is_not_as_it_was(cluster, start, error, said, fake_time):
    with pytest.raises(error, match=said):
        fetched(cluster, start, 15)


@pytest.mark.parametrize("error", ["UNSUPPORTED_COMPRESSION_TYPE", "UNSUPPORTED_VERSION", "error 999"])
def test_every_other_error_is_reported_at_once(error):
    cluster = FakeCluster(LOG, always=error)
    with pytest.raises(KafkaRefused, match=rf"t-0 cannot be fetched from offset 4 on: {error}"):
        fetched(cluster, 4, 15)
    assert len(cluster.requests) == 1


def test_the_log_start_moves_while_it_is_read(fake_time, monkeypatch):
    monkeypatch.setattr(fetch, "RESPONSE_BYTES", len(LOG[0]))

    def moves(cluster):
        cluster.log_start, cluster.batches = 12, LOG[3:]

    cluster = FakeCluster(LOG, script=[lambda _: None, moves])
    log = open_log(cluster, 0, 15, skip_lost=True)
    assert read(log) == b"".join([LOG[0], *LOG[3:]])
    # The epoch of a batch before the new start says nothing about the log there, so the request does not send it.
    assert [(each.offset, each.last_epoch) for each in cluster.requests[:3]] == [(0, None), (3, 3), (12, None)]


def test_requests_carry_the_leader_epoch_of_the_last_batch(monkeypatch):
    log = [
        batch(0, records(3), leader_epoch=7),
        batch(3, records(3), leader_epoch=8),
        wrapped(6, 7, 1),
        *log_of((8, 8)),
    ]
    monkeypatch.setattr(fetch, "RESPONSE_BYTES", 1)
    cluster = FakeCluster(log)
    fetched(cluster, 0, 9)
    reported = {request.offset: request.last_epoch for request in cluster.requests}
    assert reported[0] is None
    assert reported == {0: None, 3: 7, 6: 8, 8: None}
    assert {request.topic_id for request in cluster.requests} == {TOPIC_ID}


def test_a_leader_that_does_not_know_the_epoch_is_asked_without_it(fake_time, monkeypatch):
    monkeypatch.setattr(fetch, "RESPONSE_BYTES", len(LOG[0]))
    cluster = FakeCluster(LOG, script=[lambda _: None, "OFFSET_OUT_OF_RANGE"])
    assert fetched(cluster, 0, 15) == b"".join(LOG)
    assert [each.last_epoch for each in cluster.requests][:3] == [None, 3, None]
    assert {each.last_epoch for each in cluster.requests[3:]} == {None}


def test_a_fetched_log_cannot_seek():
    log = open_log(FakeCluster(LOG), 0, 15)
    read(log)
    with pytest.raises(io.UnsupportedOperation):
        log.seek(0)
    with pytest.raises(io.UnsupportedOperation):
        open_log(FakeCluster(LOG), 0, 15).seek(1)


def test_the_limit_is_shared_among_fetchers(fake_time):
    log = log_of(*((i, i) for i in range(300)))
    size = len(b"".join(log))
    limited = open_log(FakeCluster(log), 0, 300, fetchers=4, max_bytes_per_second=4000)
    assert read(limited) == b"".join(log)
    # The last answer need not be waited for.
    assert size / 1000 - 64 <= fake_time.now - 1000 <= size / 1000


def test_the_limit_is_for_all_pieces_of_a_task(fake_time):
    log = log_of(*((i, i) for i in range(100)))
    opener = PieceOpener(FakeCluster(log).as_cluster(), FetchLimits(1, max_bytes_per_second=100))
    for start in range(0, 100, 10):
        with opener(FetchPiece("t", 0, None, start, start + 10, True, 1, 100.0)) as piece:
            assert len(read(piece)) == len(b"".join(log)) // 10
    # The last answer need not be waited for. An answer has more than its piece needs.
    assert fake_time.now - 1000 >= len(b"".join(log)) * 0.9 / 100


def test_waiting_for_the_limit_is_not_waiting_for_the_broker(fake_time, monkeypatch):
    log = log_of((0, 9), (10, 19))
    monkeypatch.setattr(fetch, "SMALLEST_RESPONSE", len(log[0]))
    cluster = FakeCluster(log, script=[lambda _: None, "NETWORK_EXCEPTION"])
    assert read(open_log(cluster, 0, 20, max_bytes_per_second=1)) == b"".join(log)
    assert fake_time.now - 1000 >= len(log[0])


def test_answers_are_no_larger_than_a_seconds_share():
    cluster = FakeCluster(LOG)
    read(open_log(cluster, 0, 15, fetchers=2, max_bytes_per_second=1 << 20))
    assert [request.max_bytes for request in cluster.requests] == [1 << 19]


def test_less_is_asked_for_where_an_answer_does_not_come_in_time(fake_time):
    """A slow network never brings a large answer in time. The next partition asks for less from the start."""
    cluster = FakeCluster(LOG, script=["REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "REQUEST_TIMED_OUT"])
    opener = PieceOpener(cluster.as_cluster(), FetchLimits())
    for _ in range(2):
        with opener(FetchPiece("t", 0, None, 0, 15, True, 1, 100.0)) as piece:
            assert read(piece) == b"".join(LOG)
    assert [request.max_bytes for request in cluster.requests] == [8 << 20, 1 << 20, 1 << 20, 1 << 17, 1 << 17]
    opener._pace.ask_for_less()
    assert opener._pace.response_bytes == fetch.SMALLEST_RESPONSE


class TestDamage:
    """A batch damaged on a broker's disk is fetched as it is, once, and reading goes on after it."""

    @staticmethod
    def flipped(damaged, at):
        return damaged[:at] + bytes([damaged[at] ^ 0x55]) + damaged[at + 1 :]

    @pytest.mark.parametrize("size", [1, 200, 1 << 20])
    def test_of_a_batch_in_the_middle(self, size, monkeypatch, chosen):
        monkeypatch.setattr(fetch, "RESPONSE_BYTES", size)
        # The header up to the checksum is what fetching reads.
        without_length = [at for at in range(len(LOG[2])) if at not in range(8, 12)]
        for at in chosen.some(without_length, 10, always=[at for at in without_length if at < 21]):
            log = [*LOG[:2], self.flipped(LOG[2], at), *LOG[3:]]
            cluster = FakeCluster(log, lasts=[2, 3, 8, 13, 14])
            assert fetched(cluster, 0, 15) == b"".join(log), at
            assert fetched(cluster, 0, 14) == b"".join(log[:4]), at

    @pytest.mark.parametrize(
        ("base", "size"),
        [(base, size) for base in (0, 3, 1 << 40) for size in (1, 250, 1 << 20)] + [(5, 1 << 20), (14, 1 << 20)],
    )
    def test_of_an_offset(self, base, size, monkeypatch):
        """No CRC covers it: only later batches of the answer, or the high watermark, show that it is wrong."""
        monkeypatch.setattr(fetch, "RESPONSE_BYTES", size)
        log = log_of(*((i, i) for i in range(16)))
        log[4] = base.to_bytes(8, "big") + log[4][8:]
        whole = b"".join(log)
        cluster = FakeCluster(log, lasts=range(16))
        assert fetched(cluster, 0, 16) == whole
        assert fetched(cluster, 0, 12) == b"".join(log[:12])
        assert fetched(cluster, 2, 16) == b"".join(log[2:])

    @pytest.mark.parametrize("length", [-1, 0, 13, 1 << 30])
    @pytest.mark.parametrize("size", [1, 200, 1 << 20])
    def test_of_a_length_is_refused(self, length, size, monkeypatch):
        """The batches before it are there; nothing shows where the next one begins."""
        monkeypatch.setattr(fetch, "RESPONSE_BYTES", size)
        damaged = LOG[2][:8] + length.to_bytes(4, "big", signed=True) + LOG[2][12:]
        cluster = FakeCluster([*LOG[:2], damaged, *LOG[3:]])
        assert fetched(cluster, 0, 4) == b"".join(LOG[:2])
        with pytest.raises(NotReadable, match=DAMAGED):
            fetched(cluster, 0, 15)

    def test_is_not_a_batch_that_the_cleaner_changed_between_two_answers(self, monkeypatch):
        monkeypatch.setattr(fetch, "RESPONSE_BYTES", len(LOG[0] + LOG[1]) + 80)
        cleaned = batch(4, records(1), last_offset_delta=4)
        cluster = FakeCluster(LOG, script=[lambda _: None, lambda cluster: setattr(cluster, "batches", log)])
        log = [*LOG[:2], cleaned, *LOG[3:]]
        assert fetched(cluster, 0, 15) == b"".join(log)

    def test_with_nothing_sound_after_it_is_refused(self):
        """Its own claim of an offset is not believed."""
        flipped = self.flipped(LOG[4], 70)
        for damaged in (flipped, *(claim.to_bytes(8, "big", signed=True) + LOG[4][8:] for claim in (-1, 3, 99))):
            cluster = FakeCluster([*LOG[:4], damaged], high_watermark=15)
            cluster.script = [FetchAnswer(damaged, 15, None)]
            with pytest.raises(NotReadable, match=DAMAGED.replace("offset 4", "offset 14")):
                fetched(cluster, 14, 15)


DAMAGED = (
    r"t-0: the leader's batch at offset 4 is damaged .* move the leader to another replica, restore the segment, or"
)
