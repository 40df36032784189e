from __future__ import annotations

import pytest

from kgroups_spark.messages.consumer_protocol import subscribed_topics
from tests.messages.vectors import vectors
from tests.slow_messages import coordinator_topics


@pytest.mark.parametrize("vector", vectors("subscription"))
def test_the_coordinator_reads_topics_and_user_data_of_every_version_as_version_0(vector):
    blob = bytes.fromhex(vector["hex"])
    cut = [subscribed_topics(blob[:length]) for length in range(len(blob) + 1)]
    version_0 = 2 + 4 + 2 * (2 + 1) + 4 + 2  # version, two topics of a letter, two bytes of user data
    assert cut == [None] * version_0 + [["a", "b"]] * (len(blob) + 1 - version_0)
    assert cut == [coordinator_topics(blob[:length]) for length in range(len(blob) + 1)]


@pytest.mark.parametrize("version", ["0009", "7fff", "ffff", "8000"])
def test_the_version_does_not_matter(version):  # T16
    assert subscribed_topics(bytes.fromhex(version + "00000001000161ffffffff")) == ["a"]


def test_a_malformed_tail_does_not_matter():
    assert subscribed_topics(bytes.fromhex("0003 00000001 0001 61 ffffffff 7fffffff")) == ["a"]


@pytest.mark.parametrize("blob", ["", "00", "0000ffffffff00000000", "00000000000100ff", "0000000000017fff"])
def test_what_is_not_a_subscription_gives_none(blob):
    assert subscribed_topics(bytes.fromhex(blob)) is None


def test_no_topics_are_not_unknown_topics():
    assert subscribed_topics(bytes.fromhex("000000000000ffffffff")) == []
