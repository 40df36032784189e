"""KIP-211's table of group states: in which states a group's offsets expire, and when (its section on the Empty state).

The KIP names five states. The log never shows PreparingRebalance, and a group that is Dead has no row. Releases before
2.1 did not have the rule: there each offset expires by its own time, whatever the state of its group.
"""

from __future__ import annotations

import pytest

from tests.expiry.cases import NOW, PARTITION, R, ago, empty, group, member, offset
from tests.expiry.frames import clean_up

COMMITTED = ago(30)


def judged(state, *, as_of=NOW, release="4.4", subscribed=()):
    """The topics whose offsets expire at `as_of`, and whether the group is deleted. `subscribed`: by its one member."""
    key = {"offsets_partition": PARTITION, "group_id": "g"}
    tables = {
        "groups": [{**key, **state}],
        "group_members": [{**key, **member(*subscribed)}] if subscribed else [],
        "committed_offsets": [{**key, **offset(topic, COMMITTED)} for topic in ("orders", "invoices")],
        "pending_offsets": [],
    }
    offsets, groups = clean_up(tables, as_of=as_of, retention_ms=R, release_version=release)
    expiring = sorted(row["topic"] for row in offsets if row["decision"] == "expire")
    return expiring, [row["decision"] for row in groups]


def active(state):
    return group(
        "classic", state, protocol_type="consumer", protocol="range", generation=4, current_state_timestamp=COMMITTED
    )


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "CompletingRebalance"])
def test_while_a_group_is_not_empty_its_offsets_do_not_expire_however_old_they_are(state):
    assert judged(active(state), subscribed=("orders", "invoices")) == ([], ["keep"])


def test_offsets_of_a_topic_that_a_stable_group_no_longer_reads_expire_since_2_4():
    """The KIP left this case open. Since 2.4 such offsets of a Stable group expire by their own time (T13)."""
    assert judged(active("Stable"), subscribed=("orders",)) == (["invoices"], ["keep"])
    assert judged(active("Stable"), subscribed=("orders",), release="2.1") == ([], ["keep"])
    assert judged(active("CompletingRebalance"), subscribed=("orders",)) == ([], ["keep"])


def test_empty_starts_the_clock_for_all_offsets_of_the_group_at_once():
    since = NOW - R
    assert judged(empty(since), as_of=NOW - 1) == ([], ["keep"])
    assert judged(empty(since), as_of=NOW) == (["invoices", "orders"], ["delete"])


def test_a_group_that_becomes_empty_again_restarts_the_clock():
    assert judged(empty(NOW - R))[0] == ["invoices", "orders"]
    # A member joined and left in between.
    assert judged(empty(NOW - 1))[0] == []


def test_a_dead_group_has_nothing_left_to_expire():
    offsets, groups = clean_up(
        {"groups": [], "group_members": [], "committed_offsets": [], "pending_offsets": []},
        as_of=NOW,
        retention_ms=R,
        release_version="4.4",
    )
    assert (list(offsets), list(groups)) == ([], [])


@pytest.mark.parametrize("release", ["0.11", "1.1", "2.0"])
def test_before_the_kip_each_offset_expires_by_its_own_time_whatever_the_state(release):
    assert judged(active("CompletingRebalance"), release=release)[0] == ["invoices", "orders"]
    assert judged(empty(NOW - 1), release=release)[0] == ["invoices", "orders"]
