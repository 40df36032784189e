"""Differences between two releases: which of them follow from which."""

from __future__ import annotations

from typing import Any

from kgroups_spark.audit.differences import OTHER_GROUP, OTHER_OFFSETS, WITHOUT_LOAD, Difference, with_causes

RULE, EXPIRY_RULE = "a rule of the coordinator", "a rule of expiry"


def difference(kind: str, group_id: str | None = "g", what: str = "decision", **more: Any) -> Difference:
    values = {"value_a": "a", "value_b": "b"} | more
    return Difference(kind, 1, group_id, what, **values)


def causes(*differences: Difference) -> list[tuple[str, str | None]]:
    return [(each.difference, each.follows_from) for each in with_causes(differences)]


def test_groups_of_a_partition_that_does_not_load_follow_from_the_load() -> None:
    load = difference("load", None, "load")
    groups = [difference("group", name, "group", value_b=WITHOUT_LOAD["java"], why="w") for name in "ab"]
    assert causes(*groups, load) == [("load", None), ("group", "load"), ("group", "load")]


def test_members_follow_from_their_group_where_one_rule_makes_both() -> None:
    group = difference("group", what="group_epoch", why=RULE)
    assert causes(difference("member", why=RULE, what="member_epoch"), group)[1] == ("member", "group")
    assert causes(difference("member", why="another rule", what="member_epoch"), group)[1] == ("member", None)
    assert causes(difference("member", "h", why=RULE, what="member_epoch"), group)[1] == ("member", None)


def test_an_offset_is_a_cause_unless_it_only_lacks_its_group() -> None:
    group = difference("group", what="group", value_b=None, why=RULE)
    lost = difference("committed_offset", what="committed_offset", why=RULE)
    orphan = difference("committed_offset", what="is_orphan", why=RULE)
    assert causes(group, lost)[1] == ("committed_offset", None)
    assert causes(group, orphan)[1] == ("committed_offset", "group")


def test_expiry_follows_from_other_differences_in_the_group() -> None:
    group = difference("group", what="group_type", why=RULE)
    of_group = [difference("offset_expiry", partition=n, why=OTHER_GROUP) for n in (0, 1)]
    assert causes(group, *of_group)[1:] == [("offset_expiry", "group")] * 2
    pending = difference("pending_offset", what="committed_offset", why=RULE)
    of_offsets = [difference(kind, why=OTHER_OFFSETS) for kind in ("offset_expiry", "group_expiry")]
    assert causes(*of_offsets, pending)[1:] == [("offset_expiry", "pending_offset"), ("group_expiry", "pending_offset")]


def test_causes_come_before_their_effects_in_log_order() -> None:
    """By kind, offsets partition, group, topic, partition and member, in whichever order they were found."""
    in_order = [
        difference("group", None),
        difference("group", "b"),
        difference("member", "a", member_id="m1"),
        difference("member", "a", member_id="m2"),
        difference("committed_offset", "a"),
        difference("committed_offset", "a", topic="t", partition=0),
        difference("committed_offset", "a", topic="t", partition=1),
        difference("committed_offset", "a", topic="u", partition=0),
        difference("committed_offset", "b", topic="t", partition=0),
        difference("committed_offset", "a", topic="t", partition=0)._replace(offsets_partition=2),
        difference("group_expiry", "a"),
    ]
    for found in (in_order, in_order[::-1]):
        assert with_causes(found) == in_order


def test_a_rule_of_expiry_is_a_cause_once_in_each_group() -> None:
    offsets = [difference("offset_expiry", name, partition=n, why=EXPIRY_RULE) for name in "gh" for n in (0, 1)]
    assert [each.follows_from for each in with_causes(offsets)] == [None, "offset_expiry"] * 2
    group = difference("group", what="group_epoch", why=RULE)
    assert causes(group, offsets[0])[1] == ("offset_expiry", None)
    deleted = difference("group_expiry", why=OTHER_OFFSETS)
    assert causes(offsets[0], deleted)[1] == ("group_expiry", "offset_expiry")
