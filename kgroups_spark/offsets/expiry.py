"""Which committed offsets a clean-up removes, by the group's conditions, then each offset's topic, transaction and
time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.releases import ExpiryRules, OpenTransactionRule, expiry_rules
from kgroups_spark.offsets.columns import I64, Flags, compared, milliseconds, starts_of
from kgroups_spark.tables.columns import STRING, TIMESTAMP
from kgroups_spark.tables.rows import by_name, flags, is_given, numbers, one_array, plain, table_of
from kgroups_spark.tables.schemas import GROUP, SLOT
from kgroups_spark.words import LAST_MS

Column: TypeAlias = "pa.ChunkedArray | pa.Array"

NOWHERE = -1


def rows_among(wanted: Sequence[Column], among: Sequence[Column]) -> I64:
    """The index of a row of the columns `among` with the same values, for each row of `wanted`; NOWHERE: there is none.

    A null equals nothing, as in SQL.

        [(-1), (null), (5), (5)] among [(5), (-1), (null)]  ->  [1, NOWHERE, 0, 0]
    """
    if not len(wanted[0]) or not len(among[0]):
        return np.full(len(wanted[0]), NOWHERE)
    # Rows with the same values are mostly together, and are looked up once.
    columns = [*map(one_array, wanted)]
    heads = np.flatnonzero(starts_of(*map(_codes, columns)))
    of_wanted, of_among = np.zeros(len(heads), np.int64), np.zeros(len(among[0]), np.int64)
    for column, other in zip(columns, among, strict=True):
        values = one_array(other).dictionary if pa.types.is_dictionary(other.type) else pc.unique(other)
        # One number for the earlier columns' number and this column's value; NOWHERE if either is missing.
        for number, texts in ((of_wanted, column.take(pa.array(heads))), (of_among, other)):
            codes = _places(texts, values)
            number[:] = np.where((number == NOWHERE) | (codes == NOWHERE), NOWHERE, number * len(values) + codes)
        # Makes the numbers dense again, because the next column multiplies them.
        known, of_among = np.unique(of_among, return_inverse=True)
        found = np.minimum(np.searchsorted(known, of_wanted), len(known) - 1)
        of_wanted = np.where((of_wanted != NOWHERE) & (known[found] == of_wanted), found, NOWHERE)
    rows = np.full(len(of_among) + 1, NOWHERE)
    rows[of_among] = np.arange(len(of_among))
    return np.repeat(rows[of_wanted], np.diff(np.append(heads, len(columns[0]))))


def _codes(column: pa.Array) -> I64:
    """A number for each row, the same for the same value."""
    is_number = pa.types.is_integer(column.type) and not column.null_count
    return numbers(column if is_number else column.dictionary_encode().indices, none=NOWHERE)


def _places(column: Column, values: pa.Array) -> I64:
    """The index of each row's value among these; NOWHERE: it is not there, or null."""
    if pa.types.is_dictionary(column.type):
        encoded = one_array(column)
        return np.append(_places(encoded.dictionary, values), NOWHERE)[numbers(encoded.indices, none=NOWHERE)]
    return numbers(pc.index_in(column, value_set=values, skip_nulls=True), none=NOWHERE)


def unmatched(one: pa.Table, other: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows of each table that the other does not have. Both have the same columns and distinct rows; a null equals
    a null, and dictionaries become texts."""
    names = one.column_names
    sides = [
        plain(each).append_column("is_other", pa.repeat(is_other, len(each)))
        for each, is_other in ((one, False), (other, True))
    ]
    rows = pa.concat_tables(sides).group_by(names).aggregate([("is_other", "count"), ("is_other", "any")])
    rows = rows.filter(pc.equal(rows["is_other_count"], 1))
    is_other = rows["is_other_any"]
    return rows.filter(pc.invert(is_other)).select(names), rows.filter(is_other).select(names)


NONE = np.iinfo(np.int64).min  # no time: outside the range of TIMESTAMP


def first_known(*times: I64) -> I64:
    """For each row the first time that is not NONE."""
    found = times[0]
    for other in times[1:]:
        found = np.where(found == NONE, other, found)
    return found


def later(times: I64, by_ms: int) -> I64:
    """The times plus `by_ms`; NONE stays. A sum that would overflow becomes a time far after the year 9999."""
    return np.where(times == NONE, NONE, times + storable(by_ms))


def storable(ms: int) -> int:
    """The number, limited so that a TIMESTAMP's milliseconds can be added without overflow."""
    return min(ms, 1 << 62)


def timestamps(times: I64) -> pa.Array:
    """The TIMESTAMPs; null for NONE. A time after the year 9999 becomes that year's last millisecond: few readers can
    show later times, and a sum of two times would not fit."""
    is_none = times == NONE
    micros = np.where(is_none, 0, np.minimum(times, LAST_MS) * 1000)
    return pa.array(micros, mask=is_none).cast(TIMESTAMP)


def timestamp(time_ms: int) -> pa.Scalar:
    """The same for one time."""
    return pa.scalar(min(time_ms, LAST_MS) * 1000, pa.int64()).cast(TIMESTAMP)


def texts(codes: I64 | Flags, words: Sequence[str], mask: Flags | None = None) -> pa.Array:
    """The word of each code; null if masked."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=mask), pa.array(words, STRING))


class GroupConditions(NamedTuple):
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
    emptied_ms: I64
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
    is_classic, is_share, is_consumer, is_streams = (
        _is(groups, "group_type", [name]) for name in ("classic", "share", "consumer", "streams")
    )
    is_empty = _is(groups, "state", ["Empty"])
    # Classic groups with members, whose unsubscribed topics may expire.
    by_subscription = is_classic & _is(groups, "protocol_type", ["consumer"])
    by_subscription &= _is(groups, "state", rules.subscription_states)
    was_joined = np.append(flags(pc.not_equal(groups["protocol_type"], "")), False)
    is_waiting = is_classic & is_empty & was_joined
    state_ms = numbers(milliseconds(groups["current_state_timestamp"]), none=NONE)
    # Groups with members, if the subscriptions of all of them could be parsed.
    group_of_member = rows_among(group_members.select(GROUP).columns, groups.select(GROUP).columns)
    has_known, has_unreadable = np.zeros((2, len(nothing)), bool)
    has_known[group_of_member] = True
    has_unreadable[group_of_member[~is_given(group_members["subscribed_topics"])]] = True
    knows_subscriptions = np.append(is_given(groups["protocol"]), False) & has_known & ~has_unreadable
    has_members = ~is_empty & ~is_share
    # The topics to which members of consumer groups, and of these classic groups, subscribe by name.
    topics = group_members["subscribed_topics"].combine_chunks()
    subscriber = group_of_member[pc.list_parent_indices(topics).to_numpy(zero_copy_only=False).astype(np.int64)]
    counts = (is_consumer | by_subscription)[subscriber]
    reads_topology = is_streams & ~_is(groups, "state", rules.topology_unread_states)
    subscribed = [
        (subscriber[counts], pc.list_flatten(topics).filter(pa.array(counts))),
        _of_each(groups, "resolved_regex_topics", is_consumer, _regex_topics),
        _of_each(groups, "topology", reads_topology, _topology_topics),
    ]
    return GroupConditions(
        is_share=is_share,
        is_active=is_classic & ~is_empty & ~by_subscription,
        is_unknown=by_subscription & ~knows_subscriptions,
        emptied_ms=np.where(is_waiting, np.append(state_ms, NONE), NONE),
        subscribed=_pairs(subscribed),
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
    of_share = rows_among(offsets.select(GROUP).columns, share.select(GROUP).columns) != NOWHERE
    at_fault = offsets["offsets_partition"].filter(pa.array(of_share))
    return np.asarray(rows_among([rows["offsets_partition"]], [at_fault]) != NOWHERE)


def _is(groups: pa.Table, name: str, values: Iterable[str]) -> Flags:
    """Whether each group has one of these values, and a last false for the row NOWHERE."""
    is_one = pc.is_in(groups[name], value_set=pa.array(sorted(values), STRING), skip_nulls=True)
    return np.append(flags(is_one), False)


def _pairs(lots: list[tuple[I64, pa.Array]]) -> tuple[Column, Column]:
    """The pairs of a group's row and a topic, from several lots."""
    rows = [pa.array(rows, pa.int64()) for rows, _ in lots]
    return pa.chunked_array(rows, pa.int64()), pa.chunked_array([topics for _, topics in lots], STRING)


def _of_each(
    groups: pa.Table, name: str, counts: Flags, topics_in: Callable[[Any], Iterator[Any]]
) -> tuple[I64, pa.Array]:
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


# In the order in which they are checked: the first that applies is an offset's reason.
REASONS = (
    "orphan",
    "share_group",
    "group_active",
    "subscription_unknown",
    "subscribed",
    "pending_transaction",
    "expire_timestamp_passed",
    "before_expire_timestamp",
    "retention_passed",
    "within_retention",
    "clean_up_fails",  # in place of the four before it
)
ORPHAN = REASONS.index("orphan")
SUBSCRIBED = REASONS.index("subscribed")
CLEAN_UP_FAILS = REASONS.index("clean_up_fails")
EXPIRES = [REASONS.index("expire_timestamp_passed"), REASONS.index("retention_passed")]
WITHIN_RETENTION = REASONS.index("within_retention")
WAITS = [REASONS.index("before_expire_timestamp"), WITHIN_RETENTION]
# The offset has a time, but its topic, a transaction or a failing clean-up keeps it.
SPARED = [SUBSCRIBED, REASONS.index("pending_transaction"), CLEAN_UP_FAILS]

BASES = ("expire_timestamp", "current_state_timestamp", "commit_timestamp")


def offset_expiry(
    committed_offsets: pa.Table,
    groups: pa.Table,
    group_members: pa.Table,
    pending_offsets: pa.Table,
    *,
    as_of: int,
    retention_ms: int,
    rules: ExpiryRules,
    audit_id: int,
) -> pa.Table:
    """One row for each committed offset, in their order: the decision of a clean-up at `as_of`, its reason, and the
    time of expiry.

    The tables are the current ones, for all groups or some offsets partitions; columns that are not used may be
    missing. `as_of` is epoch milliseconds. expires_at is null if time alone changes nothing, and is in the past if the
    offset is due. In a group without members expires_at_if_empty equals expires_at.
    """
    group = rows_among(committed_offsets.select(GROUP).columns, groups.select(GROUP).columns)
    conditions = group_conditions(groups, group_members, rules)
    is_pending = rows_among(committed_offsets.select(SLOT).columns, pending_offsets.select(SLOT).columns) != NOWHERE
    is_pending &= rules.pending_transaction_spares
    commit_ms = numbers(milliseconds(committed_offsets["commit_timestamp"]), none=-1)
    # The client's expire time as the release reads it.
    expire_ms = np.full(len(commit_ms), NONE)
    if rules.honours_expire_timestamp:
        expire_ms = numbers(milliseconds(committed_offsets["expire_timestamp"]), none=NONE)
        if rules.v1_without_expire_timestamp_expired:
            is_v1 = flags(pc.equal(committed_offsets["value_version"], 1))
            expire_ms = np.where((expire_ms == NONE) & is_v1, -1, expire_ms)
    emptied_ms = conditions.emptied_ms[group]
    base_ms = first_known(expire_ms, emptied_ms, commit_ms)
    due_ms = later(first_known(expire_ms, later(base_ms, retention_ms)), 1 if rules.is_strict else 0)
    has_given_time, is_due = expire_ms != NONE, due_ms <= as_of
    reason = np.select(
        [
            group == NOWHERE,
            conditions.is_share[group],
            conditions.is_active[group],
            conditions.is_unknown[group],
            rows_among([pa.array(group), committed_offsets["topic"]], conditions.subscribed) != NOWHERE,
            is_pending,
            has_given_time & is_due,
            has_given_time,
            is_due,
        ],
        range(WITHIN_RETENTION),
        WITHIN_RETENTION,
    )
    is_skipped = in_partitions_without_clean_up(committed_offsets, committed_offsets, groups, rules)
    reason = np.where(is_skipped & np.isin(reason, EXPIRES + WAITS), CLEAN_UP_FAILS, reason)
    has_base, has_time = np.isin(reason, EXPIRES + WAITS + SPARED), np.isin(reason, EXPIRES + WAITS)
    base = np.select([has_given_time, emptied_ms != NONE], [0, 1], 2)
    # The due time if the last member had left at as_of: no topic is subscribed then, and the retention of a classic
    # group begins.
    if_waiting = np.where(expire_ms == NONE, storable(as_of + retention_ms), expire_ms)
    if_by_own_time = first_known(expire_ms, later(commit_ms, retention_ms))
    if_empty_ms = np.select(
        [conditions.waits[group], conditions.goes_by_own_time[group], conditions.has_none[group]],
        [np.maximum(if_waiting, as_of), np.maximum(if_by_own_time, as_of), due_ms],
        NONE,
    )
    none_if_empty = is_skipped | (reason == ORPHAN) | is_pending | (conditions.has_none[group] & (reason == SUBSCRIBED))
    decided = {
        "decision": texts(np.isin(reason, EXPIRES), ("keep", "expire")),
        "reason": texts(reason, REASONS),
        "base": texts(base, BASES, ~has_base),
        "base_timestamp": timestamps(np.where(has_base, base_ms, NONE)),
        "expires_at": timestamps(np.where(has_time, due_ms, NONE)),
        "expires_at_if_empty": timestamps(np.where(none_if_empty, NONE, if_empty_ms)),
    }
    columns, constants = by_name(committed_offsets) | decided, {"retention_ms": retention_ms, "audit_id": audit_id}
    return table_of("offset_expiry", columns, committed_offsets.num_rows, as_of=timestamp(as_of), **constants)


# In the order in which they are checked.
GROUP_REASONS = (
    "has_members",
    "offsets_left",
    "open_transaction",
    "share_group",
    "clean_up_fails",
    "topology_description",
    "empty_and_nothing_left",
)
NOTHING_LEFT = GROUP_REASONS.index("empty_and_nothing_left")


def group_expiry(
    offset_expiry: pa.Table,
    groups: pa.Table,
    pending_offsets: pa.Table,
    *,
    as_of: int,
    retention_ms: int,
    rules: ExpiryRules,
    audit_id: int,
    held_groups: pa.Table,
) -> pa.Table:
    """One row for each group, in their order: whether a clean-up at `as_of` deletes it, why not, and when it will.

    `offset_expiry` is the result of the function of that name for the same tables and arguments. `held_groups`
    (offsets_partition, group_id): groups that a coordinator of 3.8 to 4.0.0 believes to be in a transaction although it
    has no pending offset any more (KAFKA-19164); other releases ignore it. deletes_at is null if time alone changes
    nothing. For an Empty group without offsets it is `as_of`: the next check removes the group, whatever the retention.
    """
    # The last element is for orphans, the row NOWHERE.
    group = rows_among(offset_expiry.select(GROUP).columns, groups.select(GROUP).columns)
    has_some, has_kept, has_timeless = np.zeros((3, groups.num_rows + 1), bool)
    last_ms = np.full(groups.num_rows + 1, NONE)
    expires_ms = numbers(milliseconds(offset_expiry["expires_at"]), none=NONE)
    has_some[group] = True
    has_kept[group[compared(offset_expiry["decision"], "keep") == 0]] = True
    has_timeless[group[expires_ms == NONE]] = True
    np.maximum.at(last_ms, group, expires_ms)
    last_ms = last_ms[:NOWHERE]
    has_members = ~flags(pc.equal(groups["state"], "Empty"))
    group_ids = groups.select(GROUP).columns
    is_held = rows_among(group_ids, pending_offsets.select(GROUP).columns) != NOWHERE
    if rules.open_transaction is OpenTransactionRule.IF_IT_HAS_OFFSETS:
        is_held |= rows_among(group_ids, held_groups.select(GROUP).columns) != NOWHERE
        is_held &= has_some[:NOWHERE]
    is_held &= rules.open_transaction is not OpenTransactionRule.NEVER
    is_kept_share = flags(pc.equal(groups["group_type"], "share")) & (not rules.deletes_share_groups)
    is_skipped = in_partitions_without_clean_up(groups, offset_expiry, groups, rules)
    # We assume that the plugin is still configured: no record shows whether it is.
    is_described = is_given(groups["stored_description_epoch"]) & rules.keeps_described_streams_groups
    reason = np.select(
        [has_members, has_kept[:NOWHERE], is_held, is_kept_share, is_skipped, is_described],
        range(NOTHING_LEFT),
        NOTHING_LEFT,
    )
    # Something that does not end with time keeps the group, or one of its offsets.
    is_held_by_more = is_held | is_kept_share | is_skipped | is_described
    outlives_its_offsets = has_members | is_held_by_more | has_timeless[:NOWHERE]
    deletes_ms = np.where(last_ms == NONE, storable(as_of), last_ms)
    writes_tombstone = flags(pc.greater(groups["generation"], 0)) | rules.tombstone_at_generation_0
    decided = {
        "decision": texts(reason == NOTHING_LEFT, ("keep", "delete")),
        "reason": texts(reason, GROUP_REASONS),
        "deletes_at": timestamps(np.where(outlives_its_offsets, NONE, deletes_ms)),
        "writes_tombstone": pa.array(writes_tombstone),
    }
    columns, constants = by_name(groups) | decided, {"retention_ms": retention_ms, "audit_id": audit_id}
    return table_of("group_expiry", columns, groups.num_rows, as_of=timestamp(as_of), **constants)


# The columns that decide. HELD_GROUPS is not a table of the lake: it has the groups for which producers are noted.
HELD_GROUPS = "held_groups"
DECIDED_BY = {
    "groups": (
        *GROUP,
        "group_type",
        "state",
        "protocol_type",
        "protocol",
        "generation",
        "current_state_timestamp",
        "resolved_regex_topics",
        "topology",
        "stored_description_epoch",
    ),
    "group_members": (*GROUP, "subscribed_topics"),
    "committed_offsets": (
        *SLOT,
        "committed_offset",
        "log_offset",
        "commit_timestamp",
        "expire_timestamp",
        "value_version",
    ),
    "pending_offsets": SLOT,
    HELD_GROUPS: GROUP,
}
DECISIONS = ("offset_expiry", "group_expiry")


class CleanUp(NamedTuple):
    """The moment of a clean-up, its retention and release; times in epoch ms. `audit_id`: of the rows. `tried`: rules
    of no release, which a comparison tries; None: those of the release."""

    as_of: int
    retention_ms: int
    release_version: str
    audit_id: int
    tried: ExpiryRules | None = None

    @property
    def rules(self) -> ExpiryRules:
        return expiry_rules(self.release_version) if self.tried is None else self.tried

    def decided(self, tables: Mapping[str, pa.Table]) -> Iterator[tuple[str, pa.Table]]:
        """The rows of DECISIONS for the shards with rows in the tables (DECIDED_BY)."""
        given: dict[str, Any]
        given = {"as_of": self.as_of, "retention_ms": self.retention_ms, "audit_id": self.audit_id, "rules": self.rules}
        groups, pending = tables["groups"], tables["pending_offsets"]
        offsets = offset_expiry(tables["committed_offsets"], groups, tables["group_members"], pending, **given)
        yield "offset_expiry", offsets
        yield "group_expiry", group_expiry(offsets, groups, pending, **given, held_groups=tables[HELD_GROUPS])
