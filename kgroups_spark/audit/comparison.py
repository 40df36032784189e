r"""Two releases over one history: the differences in their state, their answers, their expiry and their load failures.

All of a lake's history is replayed once, into shards of both releases side by side; a shard is an offsets partition, as
always. Nothing in the lake changes, and only rows of finished audits count. History that `kgroups maintain --keep` has
reduced is replayed as a broker loads a compacted log. The cause of a difference is found by experiment: the groups that
differ are replayed once more, by A's rules with one of B's.

    history -> both shards -> differences, facts, expiry of both -> differences
                                  \-> those groups again, one rule after the other exchanged -> why
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.releases import (
    CONSUMER,
    SHARE,
    SHARE_40,
    STREAMS,
    Release,
    Topics,
    release,
    unknown_version,
)
from kgroups_spark.coordinator.rows import GroupRow, MemberRow
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import records_read, what_was_read
from kgroups_spark.lake.writer import make_readable
from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS
from kgroups_spark.offsets.columns import SlotRange
from kgroups_spark.offsets.expiry import CleanUp, deciding_tables, plain, unmatched
from kgroups_spark.replay.corrections import CorrectedAt, HistoryReplay
from kgroups_spark.replay.groups import ShardHistory
from kgroups_spark.replay.history_rows import coordinator_fails, misread
from kgroups_spark.replay.shard import Night
from kgroups_spark.replay.shard_states import Stored, kept_checkpoints, task_shards
from kgroups_spark.replay.sinks import Fact
from kgroups_spark.replay.state import ShardState
from kgroups_spark.replay.stored_history import PartReader, StoredHistory, StoredShard
from kgroups_spark.tables.definitions import LOAD_WOULD_FAIL
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import counted, format_duration, format_time

# Two releases over one offsets partition's log: the differences between their states.
#
# Both have replayed the same records. A partition with a failing load serves nothing, so only its groups are compared:
# each of them is missing as long as the failing record is in the log.


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
    if name not in ("offsets_partition", "group_id", "member_id", "user_data", "log_offset")
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
    """The records at which a release's load of one offsets partition fails: the first one (None: there is none), and
    the number of all.

    A log that was never compacted has records that a broker's own copy may no longer have. `may_be_compacted`: all
    failing records have newer records of their keys.
    """

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
    state: ShardState
    failures: LoadFailures

    @property
    def fails(self) -> bool:
        return self.failures.first is not None

    @cached_property
    def groups(self) -> dict[str, GroupRow]:
        """The groups by name."""
        return {name: group.row(self.offsets_partition) for name, group in sorted(self.state.groups.items())}

    def members(self, group_ids: set[str]) -> Entries:
        """The members of some groups."""
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
    """The differences of groups, or of members. Columns are compared if both have the entry, and a group the same
    type."""
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
    """The differences of offsets. If the offset itself differs, the other columns belong to another commit and are not
    compared."""
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
    differing = [f.name for f in fields(a) if getattr(a, f.name) != getattr(b, f.name) and f.name not in WITHOUT_TRACE]
    return {name: replace(a, **{name: getattr(b, name)}) for name in differing}


# The same for the rules of expiry.
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
# Fields that no compared decision depends on, or with a name of its own here: RETENTION.
EXPIRY_WITHOUT_TRACE = {"default_retention_ms", "tombstone_at_generation_0"}
RETENTION = "retention"


def tried_clean_ups(a: CleanUp, b: CleanUp) -> dict[str, CleanUp]:
    """Clean-up A with one rule of B, by the rule's field; with B's retention, by RETENTION."""
    tried = {
        name: replace(a, tried=replace(a.rules, **{name: getattr(b.rules, name)}))
        for name in EXPIRY_RULES
        if getattr(a.rules, name) != getattr(b.rules, name)
    }
    if a.retention_ms != b.retention_ms:
        tried[RETENTION] = replace(a, retention_ms=b.retention_ms)
    return tried


def sentences(a: CleanUp, b: CleanUp) -> dict[str, str]:
    """The sentence of each rule, by its name."""
    retention = f"retention is {format_duration(a.retention_ms)} and {format_duration(b.retention_ms)}"
    return {**RULES, **EXPIRY_RULES, RETENTION: retention}


# Differences between two releases -> why, and which of them only follow from another difference of the same group.


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
    """The differences of an offsets partition, each with the reason that it shows itself, or the rules that cause it.
    `tried`: these rules, by `Difference.key`."""
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
    """The differences, causes first; `follows_from` is the kind of difference of the same group that causes one.

    A group of a partition that does not load follows from the load. Members that one rule changes together with their
    group follow from the group, and so do offsets that no group can have there. Expiry follows from the first
    difference of the group that the same rule causes; if no rule alone causes it, but the state, from the first one.
    """
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


# An offsets partition's history by several releases -> the differences of two states, and their expiry decisions.


# The cleaner's keys: the newest record of a key stays.
COMMIT_KEY = ("record_type", "group_id", "topic", "partition")
Key: TypeAlias = tuple[Any, ...]
GROUP_KEY = ("record_type", "group_id", "member_id", "regular_expression")
# The column with a decision's time, by the table of decisions.
WHEN = {"offset_expiry": "expires_at", "group_expiry": "deletes_at"}
NEVER = datetime(1, 1, 1, tzinfo=UTC)
_STATE = "state"  # all rules of a release's replay
# Differences by the name of the rule that was tried.
Tried: TypeAlias = Mapping[str, list[Difference]]


@dataclass(frozen=True)
class ComparedShard:
    """An offsets partition that several releases replay."""

    offsets_partition: int
    history: ShardHistory
    corrections: list[CorrectedAt]
    ranges: list[SlotRange]

    @classmethod
    def of(cls, shard: StoredShard) -> ComparedShard:
        """The shard's valid history, without the load failures of the audits' release, and without corrupt batches:
        what a load makes of them depends on their bytes, as no release checks a CRC."""
        history = shard.history()
        records = history.quarantine.filter(~pc.field("reason").isin([LOAD_WOULD_FAIL["reason"], "corrupt_batch"]))
        history = replace(history, quarantine=records)
        return cls(shard.offsets_partition, history, shard.corrections(), shard.ranges())

    def by(
        self, release: Release, clean_up: CleanUp | None = None, *, ends_at_undecodable: bool = True
    ) -> ReleaseReplay:
        """The replay by a release; `ends_at_undecodable`: its load also fails at undecodable records."""
        number = self.offsets_partition
        night = Night(0, release.name, None, Topics(), tried=release, clean_up=clean_up)
        replay = HistoryReplay(number, night, ShardState(), self.history, self.corrections, self.ranges)
        for _ in replay.changes():
            pass
        failures = self._failures(replay, release, ends_at_undecodable)
        return ReleaseReplay(number, release, replay.state, failures, replay, self._skipped(release))

    def _failures(self, replay: HistoryReplay, release: Release, ends_at_undecodable: bool) -> LoadFailures:
        failing = self._failing(replay, release)
        found = [LoadFailure(log_offset, detail) for (log_offset, _), detail in failing.items()]
        count = len(found)
        rows = self.history.quarantine.filter(coordinator_fails(self.history.quarantine, release))
        is_decodable = not ends_at_undecodable or not len(rows)
        if not is_decodable:
            places = zip(*(rows.column(name).to_pylist() for name in ("log_offset", "reason", "detail")), strict=True)
            log_offset, reason, detail = min(places, key=lambda place: (place[0], place[1], place[2] or ""))
            found.insert(0, LoadFailure(log_offset, f"{reason}: {detail}"))
            count += max(1, pc.sum(rows.column("record_count")).as_py())
        may_be_compacted = is_decodable and bool(failing) and self._have_newer({key: at for at, key in sorted(failing)})
        return LoadFailures(min(found, key=lambda each: each.log_offset, default=None), count, may_be_compacted)

    def _failing(self, replay: HistoryReplay, release: Release) -> dict[tuple[int, Key], str]:
        """The reasons by log offset and key of the records at which the load fails, undecodable ones aside."""
        found = {}
        for row in replay.unreadable.select([*COMMIT_KEY, "log_offset", "value_version"]).to_pylist():
            key = _key(row, COMMIT_KEY)
            found[row["log_offset"], key] = _detail(key, unknown_version(row["record_type"], row["value_version"]))
        for placed, detail in replay.failures:
            key = _key(placed.record._asdict(), GROUP_KEY)
            found[placed.log_offset, key] = _detail(key, detail)
        for row in misread(self.history.group_records, release, [*GROUP_KEY, "log_offset"]):
            found.setdefault((row["log_offset"], _key(row, GROUP_KEY)), row["detail"])
        return found

    def _have_newer(self, newest: Mapping[Key, int]) -> bool:
        """Whether each of the keys has a record after this log offset."""
        left, groups = set(newest), pa.array(sorted({key[1] for key in newest}))
        commits = ((COMMIT_KEY, self.history.commits(slots)) for slots in self.ranges)
        for names, rows in (*commits, (GROUP_KEY, self.history.group_records)):
            rows = rows.filter(pc.is_in(rows.column("group_id"), groups))
            columns = (rows.column(name).to_pylist() for name in (*names, "log_offset"))
            left -= {tuple(key) for *key, at in zip(*columns, strict=True) if at > newest.get(tuple(key), at)}
        return not left

    def _skipped(self, release: Release) -> Counter[int]:
        """Records that the release does not know and skips, by type."""
        if not release.skips_unknown_types:
            return Counter()
        counts = self.history.group_records.column("record_type").value_counts().to_pylist()
        known = release.record_types | release.unreplayable_types
        return Counter({each["values"]: each["counts"] for each in counts if each["values"] not in known})


@dataclass(frozen=True)
class ReleaseReplay(Loaded):
    """The result of one release for an offsets partition.

    replay   after all changes
    skipped  records of types that the release does not know and skips, by type
    """

    replay: HistoryReplay
    skipped: Counter[int]

    @property
    def clean_up(self) -> CleanUp:
        """The clean-up with which it was replayed."""
        assert self.replay.night.clean_up is not None, "replayed without a clean-up"
        return self.replay.night.clean_up

    @cached_property
    def decided(self) -> dict[str, pa.Table]:
        """offset_expiry and group_expiry of the release's state."""
        return self.decided_by(self.clean_up)

    def decided_by(self, clean_up: CleanUp) -> dict[str, pa.Table]:
        """The same by another clean-up."""
        return dict(clean_up.decided(self._deciding))

    @cached_property
    def _deciding(self) -> dict[str, pa.Table]:
        return deciding_tables(self.replay.deciding())


def _key(row: Mapping[str, Any], names: Sequence[str]) -> Key:
    return tuple(row[name] for name in names)


def _detail(key: Key, failure: str) -> str:
    record_type, group_id, *_ = key
    return f"{CONSUMER_OFFSETS[record_type].name} (type {record_type}) of group {group_id}: {failure}"


def all_differences(a: ReleaseReplay, b: ReleaseReplay) -> Iterator[Difference]:
    """The differences of state, and then of decisions on entries that both have."""
    yield from differences(a, b)
    if not a.fails and not b.fails:
        yield from decision_differences(a.decided, b.decided)


def expiry_differences(a: ReleaseReplay, b: ReleaseReplay) -> Iterator[Difference]:
    """The differing decisions on entries that both have, with the rules of expiry that cause them; without a reason
    if the state takes part in it."""
    found = [*decision_differences(a.decided, b.decided)]

    def tried(one: ReleaseReplay, other: ReleaseReplay) -> Tried:
        of_state = decision_differences(a.decided, other.decided_by(one.clean_up))
        return {_STATE: [*of_state], **by_expiry_rule(a, one, other)}

    return with_rules(found, a, b, tried) if found else iter(())


def by_rule(shard: ComparedShard, a: ReleaseReplay, one: ReleaseReplay, other: ReleaseReplay) -> Tried:
    """All differences from A of `one` with one rule of `other`, by rule."""
    rules = tried_releases(one.release, other.release)
    replays = ((name, shard.by(each, one.clean_up, ends_at_undecodable=False)) for name, each in rules.items())
    found = {name: [*all_differences(a, each)] for name, each in replays}
    of_state = [*differences(a, one)]
    return found | {name: [*of_state, *decided] for name, decided in by_expiry_rule(a, one, other).items()}


def by_expiry_rule(a: ReleaseReplay, one: ReleaseReplay, other: ReleaseReplay) -> Tried:
    """The differing decisions, from A, of `one` with one rule of expiry of `other`, by rule."""
    clean_ups = tried_clean_ups(one.clean_up, other.clean_up)
    return {name: [*decision_differences(a.decided, one.decided_by(each))] for name, each in clean_ups.items()}


def with_rules(
    found: Iterable[Difference],
    a: ReleaseReplay,
    b: ReleaseReplay,
    tried: Callable[[ReleaseReplay, ReleaseReplay], Tried],
) -> Iterator[Difference]:
    """Each difference with the rules of B that alone cause it; if there are none, the rules of A that alone remove it;
    if there are none, either, the rules of B that alone make another difference there. `tried`: as `by_rule`."""
    made, left = tried(a, b), tried(b, a)
    exactly = {rule: set(some) for rule, some in made.items()}
    with_b, with_a = ({rule: {each.key for each in some} for rule, some in of.items()} for of in (made, left))
    said = sentences(a.clean_up, b.clean_up)
    for each in found:
        make = [rule for rule, some in exactly.items() if each in some]
        end = [rule for rule, some in with_a.items() if each.key not in some]
        rules = make or end or [rule for rule, some in with_b.items() if each.key in some]
        yield each._replace(why=None if _STATE in rules else "; ".join(said[rule] for rule in rules) or None)


def decision_differences(a: Mapping[str, pa.Table], b: Mapping[str, pa.Table]) -> Iterator[Difference]:
    """The differing decisions of two clean-ups on entries that both have; those on offsets come first."""
    for name, when in WHEN.items():
        key = list(TABLES[name].key)
        of_a, of_b = (plain(each[name].select([*key, "decision", "reason", when])) for each in (a, b))
        both = of_a.join(of_b, key, join_type="inner", left_suffix="_a", right_suffix="_b", use_threads=False)
        is_other = pc.not_equal(both["decision_a"], both["decision_b"])
        is_later = pc.not_equal(*(pc.coalesce(both[f"{when}_{side}"], NEVER) for side in "ab"))
        rows = both.filter(pc.or_(is_other, is_later)).sort_by([(column, "ascending") for column in key])
        for row in rows.to_pylist():
            what = "decision" if row["decision_a"] != row["decision_b"] else when
            value_a, value_b = (_decision_text(row, what, side) for side in "ab")
            place = (name, row["offsets_partition"], row["group_id"], what, value_a, value_b)
            yield Difference(*place, topic=row.get("topic"), partition=row.get("partition"))


def _decision_text(row: Mapping[str, Any], what: str, side: str) -> str | None:
    value = row[f"{what}_{side}"]
    if what == "decision":
        return f"{value} ({row[f'reason_{side}']})"
    return None if value is None else format_time(value)


# Kinds of facts from tasks: a difference, or facts of one side.
_DIFFERENCE, _FACTS = "difference", ("a", "b")
Sides = Sequence[tuple[Release, CleanUp]]


@dataclass(frozen=True)
class Side:
    """A release, and its retention for expiry, in ms."""

    release_version: str
    retention_ms: int

    @property
    def rules(self) -> Release:
        return release(self.release_version)

    def clean_up(self, as_of_ms: int, audit_id: int) -> CleanUp:
        return CleanUp(as_of_ms, self.retention_ms, self.release_version, audit_id)


@dataclass
class Facts:
    """The offsets partitions that one release fails to load, and facts on all records and groups of its replay.

    `failing`: the failures by offsets partition. `compacted_perhaps`: failing partitions in which all failing records
    have newer records of their keys. `unserved_groups`: groups of failing partitions as the other release has them; if
    that fails to load them, too, in the state without those records. `skipped`: records of types that the release does
    not know and skips, by type, and `topic_ids`: offsets with a topic id, both in the partitions that it loads.
    `names`: all groups.
    """

    unserved_groups: int = 0
    unserved_offsets: int = 0
    topic_ids: int = 0
    failing: dict[int, str] = field(default_factory=dict)
    compacted_perhaps: set[int] = field(default_factory=set)
    skipped: Counter[int] = field(default_factory=Counter)
    names: set[str] = field(default_factory=set)

    def add(self, reported: dict[str, Any]) -> None:
        """Adds the facts of an offsets partition."""
        number = reported["offsets_partition"]
        if reported["failure"] is None:
            self.topic_ids += reported["topic_ids"]
            self.skipped.update({int(kind): count for kind, count in reported["skipped"].items()})
        else:
            self.failing[number] = reported["failure"]
            self.unserved_groups += len(reported["groups"])
            self.unserved_offsets += reported["offsets"]
            if reported["may_be_compacted"]:
                self.compacted_perhaps.add(number)
        self.names.update(reported["groups"])


@dataclass
class Comparison:
    """The differences, and the facts to report before them. `audit_id`: the compared audit; `as_of_ms`: the time at
    which expiry is decided, epoch ms."""

    a: Side
    b: Side
    audit_id: int
    as_of_ms: int
    is_reduced: bool
    partitions: int
    facts: tuple[Facts, Facts] = field(default_factory=lambda: (Facts(), Facts()))
    differences: list[Difference] = field(default_factory=list)


def compare(
    lake: Lake, a: Side, b: Side, as_of_ms: int, *, groups: Collection[str] = (), progress: Callable[[str], None]
) -> Comparison:
    """The comparison of both releases over the lake's history, as of its last finished audit. `groups`: only these
    (empty: all)."""
    make_readable(lake)
    then, stored = LakeAsOfAudit.last_finished(lake), Stored(lake)
    records = records_read(what_was_read(lake, then.audit_id))
    is_reduced = kept_checkpoints(then).num_rows > 0
    found = Comparison(a, b, then.audit_id, as_of_ms, is_reduced, len(records))
    progress(f"replaying {counted(len(records), 'offsets partition')} by {a.release_version} and {b.release_version}")
    if not records:
        return found
    history = StoredHistory(stored.tables_as_of(then), replaced=then.replaced)
    sides = [(side.rules, side.clean_up(as_of_ms, then.audit_id)) for side in (a, b)]
    task = CompareTask(history, sides, frozenset(groups))
    for kind, reported in stored.facts(task_shards(records, lake.runner.slots), task):
        if kind == _DIFFERENCE:
            found.differences.append(Difference(*reported))
        else:
            found.facts[_FACTS.index(kind)].add(reported)
    found.differences = with_causes(found.differences)
    return found


@dataclass(frozen=True)
class CompareTask:
    """The differences of a shard between two sides, with the rules that cause them, and facts of each side. `groups`:
    only the differences of these (empty: of all)."""

    history: StoredHistory
    sides: Sides
    groups: frozenset[str] = frozenset()

    def outputs(self, reader: PartReader, offsets_partition: int) -> Iterator[Fact]:
        """[kind, difference or facts of a side] as facts."""
        found = list[Difference]()
        for kind, reported in self._compared(self.history.shard(reader, offsets_partition)):
            if kind != _DIFFERENCE:
                yield Fact((kind, reported))
            elif not self.groups or reported.group_id is None or reported.group_id in self.groups:
                found.append(reported)
        tried = dict[Difference, str]()
        if groups := without_reason(found):
            # The same history once more: only the groups that differ.
            history = replace(self.history, groups={offsets_partition: frozenset(groups)})
            tried = {each.key: each.why for each in self._tried(history.shard(reader, offsets_partition)) if each.why}
        yield from (Fact((_DIFFERENCE, each)) for each in with_reasons(found, tried))

    def _compared(self, stored: StoredShard) -> Iterator[tuple[str, Any]]:
        shard = ComparedShard.of(stored)
        a, b = (shard.by(*side) for side in self.sides)
        for each in differences(a, b):
            yield _DIFFERENCE, each._replace(why=each.why or reason(each, a.release, b.release))
        served = a if b.fails else b
        yield from ((kind, facts(replay, served)) for kind, replay in zip(_FACTS, (a, b), strict=True))
        if not a.fails and not b.fails:
            yield from ((_DIFFERENCE, each) for each in expiry_differences(a, b))

    def _tried(self, stored: StoredShard) -> Iterator[Difference]:
        """The differences, with the rules that cause them by experiment."""
        shard = ComparedShard.of(stored)
        a, b = (shard.by(*side, ends_at_undecodable=False) for side in self.sides)
        return with_rules(all_differences(a, b), a, b, partial(by_rule, shard, a))


def facts(replay: ReleaseReplay, served: Loaded) -> dict[str, Any]:
    """The input of `Facts.add`, as a JSON value. `served`: the state of the release that loads the partition."""
    failures = replay.failures
    state = served.state if replay.fails and not served.fails else replay.state
    offsets = state.offsets.offsets
    offsets = offsets.filter(offsets["producer_id"].is_null())
    return {
        "offsets_partition": replay.offsets_partition,
        "groups": sorted(state.groups),
        "offsets": len(offsets),
        "topic_ids": len(offsets) - offsets["topic_id"].null_count,
        "failure": str(failures) if replay.fails else None,
        "may_be_compacted": failures.may_be_compacted,
        "skipped": dict(replay.skipped),
    }
