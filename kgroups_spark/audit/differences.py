"""Two releases over one offsets partition's log: the differences between their states. A partition with a failing load
serves nothing as long as the record is in the log, so each of its groups is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.releases import CONSUMER, SHARE, SHARE_40, STREAMS, Release, Topics
from kgroups_spark.coordinator.rows import GroupRow, MemberRow
from kgroups_spark.offsets.expiry import CleanUp, unmatched
from kgroups_spark.replay.state import LogState
from kgroups_spark.words import format_duration

LOAD, GROUP, MEMBER, COMMITTED, PENDING = "load", "group", "member", "committed_offset", "pending_offset"
OFFSET_EXPIRY, GROUP_EXPIRY = "offset_expiry", "group_expiry"

# The state of groups in a partition with a failing load. Scala: GroupMetadataManager.loadGroupsAndOffsets logs the
# error and still owns the partition (3.9). Java: CoordinatorRuntime leaves the shard FAILED (4.3).
WITHOUT_LOAD = {
    "scala": "not found: no members, no offsets",
    "java": "unavailable: NOT_COORDINATOR",
}
OF_TYPE = {"consumer": CONSUMER, "share": SHARE | SHARE_40, "streams": STREAMS}

_GROUP = (
    "state",
    "protocol_type",
    "protocol",
    "generation",
    "group_epoch",
    "assignment_epoch",
    "leader",
    "current_state_timestamp",
    "member_count",
    "resolved_regex_topics",
)
_MEMBER = [
    name
    for name in MemberRow._fields
    if name
    not in (
        "offsets_partition",
        "group_id",
        "member_id",
        "user_data",
        "user_data_json",
        "log_offset",
        "log_timestamp",
        "is_removed",
    )
]
_OFFSET = ("committed_offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp")
# An offset: its producer (null: it is committed), its slot.
_KEY = ("producer_id", "group_id", "topic", "partition")
# An offsets partition and a group; None: the difference is about the partition.
Place = tuple[int, str | None]
# Rows by group and member; the member of a group's own row is None.
Entries: TypeAlias = "Mapping[tuple[str, str | None], GroupRow | MemberRow]"


class Difference(NamedTuple):
    """One difference between the states of release A and release B. Values are texts; None: that side has no value, or
    no such entry. `why`: the rule that causes it; None: unknown. `follows_from`: the kind of difference, of the same
    group or load, that causes it; None: it follows from no other."""

    difference: str
    offsets_partition: int
    group_id: str | None
    what: str
    value_a: str | None
    value_b: str | None
    member_id: str | None = None
    producer_id: int | None = None
    topic: str | None = None
    partition: int | None = None
    why: str | None = None
    follows_from: str | None = None

    @property
    def place(self) -> Place:
        return self.offsets_partition, self.group_id

    @property
    def is_decision(self) -> bool:
        return self.difference in (OFFSET_EXPIRY, GROUP_EXPIRY)

    @property
    def key(self) -> Difference:
        """The difference without its values and reason; decisions and their times are one."""
        return self._replace(what="" if self.is_decision else self.what, value_a=None, value_b=None, why=None)


class LoadFailure(NamedTuple):
    """A record at which a load ends."""

    log_offset: int
    detail: str


@dataclass(frozen=True)
class LoadFailures:
    """The first record (None: there is none) at which a release's load of one offsets partition fails, and their
    number. `may_be_compacted`: all have newer records of their keys, so a broker's own copy may have lost them."""

    first: LoadFailure | None = None
    count: int = 0
    may_be_compacted: bool = False

    def __str__(self) -> str:
        assert self.first is not None
        more = f" (and {self.count - 1} more)" if self.count > 1 else ""
        cleaned = "; newer records of the same keys follow, Kafka's cleaner may have removed it" * self.may_be_compacted
        return f"log offset {self.first.log_offset}: {self.first.detail}{more}{cleaned}"


@dataclass(frozen=True)
class Loaded:
    """A release's state of an offsets partition, and the records at which its load would have failed."""

    offsets_partition: int
    release: Release
    state: LogState
    failures: LoadFailures

    @property
    def fails(self) -> bool:
        return self.failures.first is not None

    @cached_property
    def groups(self) -> dict[str, GroupRow]:
        return {name: group.row(self.offsets_partition) for name, group in sorted(self.state.groups.items())}

    def members(self, group_ids: set[str]) -> Entries:
        of, nowhere = self.state.groups, Topics()
        return {
            (name, member): of[name].member_row(self.offsets_partition, member, nowhere)
            for name in group_ids
            for member in of[name].members
        }

    @cached_property
    def committed(self) -> pa.Table:
        """The committed offsets: _KEY, _OFFSET and is_orphan."""
        offsets = self.state.offsets.offsets
        rows = offsets.filter(offsets["producer_id"].is_null()).select([*_KEY, *_OFFSET])
        is_known = pc.is_in(rows["group_id"].cast(pa.string()), pa.array([*self.state.groups], pa.string()))
        return rows.append_column("is_orphan", pc.invert(is_known))

    @cached_property
    def pending(self) -> pa.Table:
        """The pending offsets: _KEY and _OFFSET."""
        offsets = self.state.offsets.offsets
        return offsets.filter(offsets["producer_id"].is_valid()).select([*_KEY, *_OFFSET])


def differences(a: Loaded, b: Loaded) -> Iterator[Difference]:
    """All differences, by kind and then by name."""
    number = a.offsets_partition
    if a.fails and b.fails:
        return
    if a.fails or b.fails:
        of_load, of_other = (f"fails at {each.failures}" if each.fails else "loads" for each in (a, b))
        yield Difference(LOAD, number, None, "load", of_load, of_other)
        yield from _unserved(a, b)
        return
    groups: list[Entries] = [{(name, None): row for name, row in each.groups.items()} for each in (a, b)]
    yield from _entries(GROUP, number, *groups)
    alike = {g for g in a.groups.keys() & b.groups.keys() if a.groups[g].group_type == b.groups[g].group_type}
    yield from _entries(MEMBER, number, a.members(alike), b.members(alike))
    yield from _offsets(COMMITTED, number, a.committed, b.committed)
    yield from _offsets(PENDING, number, a.pending, b.pending)


def _unserved(a: Loaded, b: Loaded) -> Iterator[Difference]:
    """The groups of a partition that one of the two fails to load."""
    failing, serving = (a, b) if a.fails else (b, a)
    number, unserved = serving.offsets_partition, WITHOUT_LOAD[failing.release.coordinator]
    why = f"{failing.release.name} could not load partition {number}"
    offsets = Counter(serving.committed["group_id"].to_pylist())
    for group_id, row in serving.groups.items():
        served = f"{_entry_text(row)}, offsets: {offsets[group_id]}"
        values = (unserved, served) if a.fails else (served, unserved)
        yield Difference(GROUP, number, group_id, "group", *values, why=why)


def _entries(kind: str, number: int, a: Entries, b: Entries) -> Iterator[Difference]:
    """The differences of groups, or of members. Columns are compared of entries that both have, of one type."""
    for group_id, member_id in sorted(a.keys() | b.keys()):
        one, other = (of.get((group_id, member_id)) for of in (a, b))
        types = {getattr(row, "group_type", None) for row in (one, other)}
        if one is None or other is None or len(types) > 1:
            what = kind if one is None or other is None else "group_type"
            yield Difference(kind, number, group_id, what, _entry_text(one), _entry_text(other), member_id)
            continue
        for name in _GROUP if kind == GROUP else _MEMBER:
            value, other_value = (_comparable(getattr(row, name)) for row in (one, other))
            if value != other_value:
                yield Difference(kind, number, group_id, name, _text(value), _text(other_value), member_id)


def _entry_text(row: GroupRow | MemberRow | None) -> str | None:
    if isinstance(row, GroupRow):
        return f"{row.group_type}, {row.state}, members: {row.member_count}"
    return None if row is None else row.member_state or "member"


def _offsets(kind: str, number: int, a: pa.Table, b: pa.Table) -> Iterator[Difference]:
    """The differences of offsets. If the offset itself differs, the other columns are another commit's."""
    rows, others = ({tuple(row[name] for name in _KEY): row for row in some.to_pylist()} for some in unmatched(a, b))
    for key in sorted(rows.keys() | others.keys(), key=lambda key: (key[1:], key[0] or 0)):
        producer_id, group_id, topic, partition = key
        row, other = rows.get(key, {}), others.get(key, {})
        for name in a.column_names[len(_KEY) :]:
            value, other_value = _text(row.get(name)), _text(other.get(name))
            if value != other_value:
                yield Difference(kind, number, group_id, name, value, other_value, None, producer_id, topic, partition)
                if name == "committed_offset":
                    break


def _comparable(value: Any) -> Any:
    """A value to compare: assignments without order, and without epochs, which older releases do not keep."""
    if not isinstance(value, list):
        return value
    return sorted(f"{p[0] or p[1]}-{p[2]}" if isinstance(p, tuple) else p for p in value)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return "; ".join(f"{name}: {', '.join(topics)}" for name, topics in sorted(value.items()))
    return str(value)


def reason(difference: Difference, a: Release, b: Release) -> str | None:
    """The reason if the difference itself shows it; None: rules must be tried to find it."""
    if difference.difference != GROUP or difference.what not in ("group", "group_type"):
        return None
    for value, other in ((difference.value_a, b), (difference.value_b, a)):
        group_type = (value or "").partition(",")[0]
        types = OF_TYPE.get(group_type)
        if types is not None and not types & other.record_types:
            return f"{other.name} does not know the records of {group_type} groups and skips them (KIP-915)"
    return None


# The rules in which releases differ: a sentence for each field of `Release` and `ExpiryRules` that is a rule.


# Each sentence describes both sides of the rule. T numbers: docs/coordinator-semantics.md.
RULES: dict[str, str] = {
    "record_types": "records of types that a release does not know are skipped (KIP-915)",
    "skips_unknown_types": "before 3.4.1 a record of an unknown type ends the load (KIP-915)",
    "unreplayable_types": "4.0 reads records of type 15 (share groups) and then fails at them",
    "legacy_offset_commit_version": "which value versions are read under a key of type 0 (since 4.1 version 0 alone)",
    "offset_commit_version": "which versions of offset commits are read (version 4 since 3.4.1, KIP-915)",
    "group_metadata_version": "which versions of GroupMetadata are read",
    "transactional_by": "what is transactional: in Java whatever has a producer id, in Scala by the batch (T28)",
    "tombstone_removes_pending": "what a tombstone removes of open transactions: in Java since 3.8 all that is pending "
    "for the partition, in 3.7 nothing, in Scala only its own transaction's (T21, T22)",
    "commit_needs_newer_record": "in 3.7's Java coordinator a COMMIT overwrites newer offsets (T19, T20)",
    "unknown_marker_ends_transaction": "in Scala a control record of an unknown type ends a transaction",
    "open_transactions_by": "which groups count as in a transaction (KAFKA-19164, fixed in 4.0.1)",
    "simple_groups_follow_offsets": "a group without metadata exists in Scala as long as it has offsets, in Java from "
    "its first offset to a tombstone of the group (T29, T30)",
    "empty_group_keeps_protocol_type": "up to 1.0.0 an Empty group forgets its protocol type (KAFKA-6287)",
    "reads_state_timestamp_of_version_3": "2.3 to 2.6.0 forget since when a group of version 3 has its state "
    "(KAFKA-10401)",
    "repeated_member_id_fails": "a snapshot with a repeated member id may end a load since 2.1",
    "repeated_instance_id_fails": "a snapshot with a repeated group.instance.id ends a load since 3.0",
    "damaged_subscription_fails": "a member's subscription that cannot be read may end a load from 2.7 to 4.3",
    "replaces_group_before_parsing": "Java puts a group in place before it reads members' subscriptions",
    "unset_rebalance_timeout_is_session_timeout": "a rebalance timeout of -1 becomes the session timeout: in Java "
    "always, in Scala in values of version 0 (T8)",
    "fresh_epoch": "epochs that are in no record are 1 since 4.3, 0 before (T38)",
    "simple_group_becomes": "which records turn a simple group into theirs: consumer groups' since 4.0 (KAFKA-17306), "
    "streams groups' since 4.2.1 (KAFKA-20254)",
    "creates_group": "which records create a group that does not exist (KAFKA-17306)",
    "creates_member": "which records create a member that does not exist",
    "needs_group": "which records fail where their group is missing (KAFKA-17306)",
    "strict_partition_epochs": "two owners of a partition end a load before 4.0.2 and 4.1.2 (KAFKA-19862)",
    "checks_partition_epochs": "two owners of a partition end a load since 3.8",
    "checks_assignment_metadata": "4.3 refuses assignment epochs below -1 and negative timestamps",
    "has_metadata_hash": "a hash of the topics' metadata is in groups' records since 4.1",
    "share_member_keeps_state": "members of share groups keep their state since 4.2",
    "unset_topology_epoch": "a streams group whose metadata record is missing has validated no topology since "
    "4.4, and that of epoch 0 before",
    "streams_ready_by_validated_epoch": "4.1 calls a streams group NotReady until it has computed its topology (T40)",
}
# Fields that no compared value depends on.
WITHOUT_TRACE = {"name", "coordinator", "layout", "has_topic_ids", "has_assignment_epochs", "has_task_epochs"}


def tried_releases(a: Release, b: Release) -> dict[str, Release]:
    """Release A with one rule of B, by the rule's field. This rule causes every difference between that and A."""
    differing = [name for name in a._fields if getattr(a, name) != getattr(b, name) and name not in WITHOUT_TRACE]
    return {name: a._replace(**{name: getattr(b, name)}) for name in differing}


# The same for coordinator/releases.py.
EXPIRY_RULES: dict[str, str] = {
    "depends_on_group": "since 2.1 members and the group's state come before the offset's own time (KIP-211)",
    "subscription_states": "in which states topics that nobody subscribes to expire (KIP-496, KAFKA-13636)",
    "topology_unread_states": "4.1 does not read the topology of a streams group that is NotReady",
    "pending_transaction_spares": "a pending offset spares the committed one of its partition in Java since 3.8",
    "honours_expire_timestamp": "a time that the client gave counts since 0.9",
    "v1_without_expire_timestamp_expired": "2.1 takes values of version 1 without an expiry time for expired "
    "(KAFKA-8069)",
    "is_strict": "before 2.1 an offset outlived the very millisecond at which it was due",
    "open_transaction": "whether open transactions keep a group that would be deleted (KAFKA-19163)",
    "share_offsets_end_clean_up": "in 4.0 and 4.4 committed offsets of a share group end the clean-up of their whole "
    "offsets partition",
    "keeps_described_streams_groups": "4.4 keeps a streams group as long as a plugin holds its topology description",
    "deletes_share_groups": "share groups that are empty are kept since 4.1 (KAFKA-19016)",
}
RETENTION = "retention"


def tried_clean_ups(a: CleanUp, b: CleanUp) -> dict[str, CleanUp]:
    """Clean-up A with one rule of B, by the rule's field; with B's retention, by RETENTION."""
    tried = {
        name: a._replace(tried=a.rules._replace(**{name: getattr(b.rules, name)}))
        for name in EXPIRY_RULES
        if getattr(a.rules, name) != getattr(b.rules, name)
    }
    if a.retention_ms != b.retention_ms:
        tried[RETENTION] = a._replace(retention_ms=b.retention_ms)
    return tried


def sentences(a: CleanUp, b: CleanUp) -> dict[str, str]:
    """The sentence of each rule, by its name."""
    retention = f"retention is {format_duration(a.retention_ms)} and {format_duration(b.retention_ms)}"
    return {**RULES, **EXPIRY_RULES, RETENTION: retention}


# In this order causes come first.
KINDS = (LOAD, GROUP, MEMBER, COMMITTED, PENDING, OFFSET_EXPIRY, GROUP_EXPIRY)
OTHER_GROUP = "the group is another one there (see its own row)"
OTHER_OFFSETS = "its offsets or transactions are others there (see their own rows)"


def without_reason(found: Sequence[Difference]) -> set[str]:
    """The groups of an offsets partition with a difference whose rule must be found by experiment. Where a release has
    not the group's type, what follows from that by its nature needs no experiment."""
    of_group = _reasons_of_groups(found)
    return {
        each.group_id
        for each in found
        if each.group_id is not None and not each.why
        if each.group_id not in of_group or not (each.what == "is_orphan" or each.is_decision)
    }


def with_reasons(found: Sequence[Difference], tried: Mapping[Difference, str]) -> Iterator[Difference]:
    """The differences, each with its own reason, or the rules that cause it (`tried`, by `Difference.key`)."""
    of_group = _reasons_of_groups(found)
    others = {each.group_id for each in found if each.difference == GROUP}
    for each in found:
        why = each.why or tried.get(each.key)
        if each.group_id in of_group and why in (None, RULES["record_types"]):
            why = of_group[each.group_id]
        if why is None and each.is_decision:
            why = OTHER_GROUP if each.group_id in others else OTHER_OFFSETS
        yield each._replace(why=why)


def _reasons_of_groups(found: Iterable[Difference]) -> dict[str | None, str]:
    return {each.group_id: each.why for each in found if each.difference == GROUP and each.why}


def with_causes(differences: Iterable[Difference]) -> list[Difference]:
    """The differences, causes first; `follows_from`: the kind of the same group's difference that causes one. All
    follow from a failing load; members, and offsets that no group can have there, from their group by the same rule.
    Expiry follows from the group's first difference by the same rule; if no rule alone causes it, from the first."""
    first: dict[Place, str] = {}
    whys: dict[tuple[Place, str], set[str | None]] = {}
    found = []
    for each in sorted(differences, key=_order):
        earlier = {kind: whys.get((each.place, kind), set()) for kind in KINDS}
        cause = _cause(each, first.get(each.place), earlier)
        found.append(each._replace(follows_from=cause))
        first.setdefault(each.place, each.difference)
        if cause is None:
            whys.setdefault((each.place, each.difference), set()).add(each.why)
    return found


def _cause(each: Difference, first: str | None, whys: dict[str, set[str | None]]) -> str | None:
    """The kind of difference that causes this one; None: none does. `first`: the group's first kind of difference;
    `whys`: the reasons of earlier ones that follow from no other, by kind."""
    if is_unserved(each):
        return LOAD
    if each.difference == MEMBER and each.why and each.why in whys[GROUP]:
        return GROUP
    if each.difference == COMMITTED and each.what == "is_orphan" and whys[GROUP]:
        return GROUP
    if each.is_decision and each.why in (OTHER_GROUP, OTHER_OFFSETS):
        return first
    if each.is_decision and each.why:
        return next((kind for kind in KINDS if each.why in whys[kind]), None)
    return None


def is_unserved(each: Difference) -> bool:
    """Whether it is a group of a partition that one of the releases does not load."""
    return each.difference == GROUP and bool({each.value_a, each.value_b} & set(WITHOUT_LOAD.values()))


def _order(each: Difference) -> tuple[object, ...]:
    return (
        KINDS.index(each.difference),
        each.offsets_partition,
        each.group_id or "",
        each.topic or "",
        each.partition or 0,
        each.member_id or "",
    )
