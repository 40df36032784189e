"""The effect of a group's type, state, members and subscriptions on the expiry of its offsets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.expiry_rules import ExpiryRules
from kgroups_spark.expiry.matching import NOWHERE, Column, Flags, Rows, are_among, columns_of, rows_among
from kgroups_spark.expiry.moment import NONE, Ms, times_in
from kgroups_spark.tables.arrays import flags, is_given
from kgroups_spark.tables.columns import STRING
from kgroups_spark.tables.schemas import GROUP


@dataclass(frozen=True)
class GroupConditions:
    """The conditions on the offsets of each row of `groups`; a last element, for the row NOWHERE, means no group.

    is_share, is_active,     none of its offsets expires: `share_group`, `group_active`,
    is_unknown               `subscription_unknown`
    emptied_ms               epoch ms from which the retention counts instead of each commit (classic, Empty, with a
                             protocol type)
    subscribed               pairs of a row of groups and a topic with offsets that stay
    waits, goes_by_own_time  the rule for its offsets if its members left: a retention from then on, or each offset's
                             own time. If neither, and has_none: it has no members
    """

    is_share: Flags
    is_active: Flags
    is_unknown: Flags
    emptied_ms: Ms
    subscribed: tuple[Column, Column]
    waits: Flags
    goes_by_own_time: Flags
    has_none: Flags


def group_conditions(groups: pa.Table, group_members: pa.Table, rules: ExpiryRules) -> GroupConditions:
    """The conditions of each group, by the rules of a release."""
    nothing = np.zeros(groups.num_rows + 1, bool)
    if not rules.depends_on_group:
        never = np.full(len(nothing), NONE)
        return GroupConditions(nothing, nothing, nothing, never, _pairs([]), nothing, nothing, ~nothing)
    is_classic, is_share = _is(groups, "group_type", ["classic"]), _is(groups, "group_type", ["share"])
    is_empty = _is(groups, "state", ["Empty"])
    by_subscription = _looks_at_subscriptions(groups, rules)
    was_joined = _flags(pc.not_equal(groups["protocol_type"], ""))
    is_waiting = is_classic & is_empty & was_joined
    knows_subscriptions = _flags(groups["protocol"].is_valid()) & _has_readable_members(groups, group_members)
    has_members = ~is_empty & ~is_share
    return GroupConditions(
        is_share=is_share,
        is_active=is_classic & ~is_empty & ~by_subscription,
        is_unknown=by_subscription & ~knows_subscriptions,
        emptied_ms=np.where(is_waiting, np.append(times_in(groups["current_state_timestamp"]), NONE), NONE),
        subscribed=_subscribed(groups, group_members, by_subscription, rules),
        waits=has_members & is_classic,
        goes_by_own_time=has_members & ~is_classic,
        has_none=is_empty & ~is_share,
    )


def in_partitions_without_clean_up(rows: pa.Table, offsets: pa.Table, groups: pa.Table, rules: ExpiryRules) -> Flags:
    """Whether the clean-up of each row's offsets partition ends with an exception, so that nothing in it expires: a
    share group there has committed offsets (4.0 and 4.4, see ExpiryRules.share_offsets_end_clean_up).

    Each table has offsets_partition. `offsets`, with a row for each committed offset, and `groups` also have group_id.
    """
    if not rules.share_offsets_end_clean_up:
        return np.zeros(rows.num_rows, bool)
    share = groups.filter(pc.equal(groups["group_type"], "share"))
    at_fault = offsets["offsets_partition"].filter(
        pa.array(are_among(columns_of(offsets, GROUP), columns_of(share, GROUP)))
    )
    return are_among([rows["offsets_partition"]], [at_fault])


def _flags(column: Column) -> Flags:
    """The boolean column with null as false, and a last false for the row NOWHERE."""
    return np.append(flags(column), False)


def _is(groups: pa.Table, name: str, values: Iterable[str]) -> Flags:
    return _flags(pc.is_in(groups[name], value_set=pa.array(sorted(values), STRING), skip_nulls=True))


def _looks_at_subscriptions(groups: pa.Table, rules: ExpiryRules) -> Flags:
    """Whether each group is a classic group with members, with unsubscribed topics that may expire."""
    is_consumer = _is(groups, "group_type", ["classic"]) & _is(groups, "protocol_type", ["consumer"])
    return is_consumer & _is(groups, "state", rules.subscription_states)


def _has_readable_members(groups: pa.Table, group_members: pa.Table) -> Flags:
    """Whether each group has members, and the subscriptions of all of them could be parsed."""
    group = rows_among(columns_of(group_members, GROUP), columns_of(groups, GROUP))
    is_readable = is_given(group_members["subscribed_topics"])
    has_members, has_unreadable = np.zeros((2, groups.num_rows + 1), bool)
    has_members[group] = True
    has_unreadable[group[~is_readable]] = True
    return has_members & ~has_unreadable  # type: ignore[no-any-return]


def _subscribed(
    groups: pa.Table, group_members: pa.Table, by_subscription: Flags, rules: ExpiryRules
) -> tuple[Column, Column]:
    is_consumer = _is(groups, "group_type", ["consumer"])
    reads_topology = _is(groups, "group_type", ["streams"]) & ~_is(groups, "state", rules.topology_unread_states)
    return _pairs(
        [
            _of_members(groups, group_members, is_consumer | by_subscription),
            _of_each(groups, "resolved_regex_topics", is_consumer, _regex_topics),
            _of_each(groups, "topology", reads_topology, _topology_topics),
        ]
    )


def _pairs(lots: list[tuple[Rows, pa.Array]]) -> tuple[Column, Column]:
    """The pairs of a group's row and a topic, from several lots."""
    rows = [pa.array(rows, pa.int64()) for rows, _ in lots]
    return pa.chunked_array(rows, pa.int64()), pa.chunked_array([topics for _, topics in lots], STRING)


def _of_members(groups: pa.Table, group_members: pa.Table, counts: Flags) -> tuple[Rows, pa.Array]:
    """The topics that members of the chosen groups (`counts`) subscribe to by name."""
    group = rows_among(columns_of(group_members, GROUP), columns_of(groups, GROUP))
    subscribed = group_members["subscribed_topics"].combine_chunks()
    member = pc.list_parent_indices(subscribed).to_numpy(zero_copy_only=False).astype(np.int64)
    row, topics = group[member], pc.list_flatten(subscribed)
    is_wanted = counts[row]
    return row[is_wanted], topics.filter(pa.array(is_wanted))


def _of_each(
    groups: pa.Table, name: str, counts: Flags, topics_in: Callable[[Any], Iterator[Any]]
) -> tuple[Rows, pa.Array]:
    """The topics in a column of the chosen groups (`counts`), which is read group by group."""
    rows = np.flatnonzero(counts[:NOWHERE])
    reported = groups[name].take(pa.array(rows, pa.int64())).to_pylist()
    pairs = [
        (row, topic)
        for row, each in zip(rows.tolist(), reported, strict=True)
        if each is not None
        for topic in topics_in(each)
    ]
    return np.array([row for row, _ in pairs], np.int64), pa.array([topic for _, topic in pairs], STRING)


def _regex_topics(resolved: list[tuple[str, list[str] | None]]) -> Iterator[str]:
    for _, topics in resolved:
        yield from topics or ()


def _topology_topics(topology: str) -> Iterator[str]:
    """Source and repartition source topics of all subtopologies of a StreamsGroupTopologyValue as JSON."""
    for subtopology in json.loads(topology).get("subtopologies") or ():
        yield from subtopology.get("sourceTopics") or ()
        for topic in subtopology.get("repartitionSourceTopics") or ():
            yield topic["name"]
