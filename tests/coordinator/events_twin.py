"""Events of groups the slow way: record by record, whole states compared, in plain loops. The referee of group_events.

Only the replay itself is shared, and the rules that say when offsets are due.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kgroups_spark.coordinator.releases import Release, ReplayFailure
from tests.expiry.frames import clean_up
from tests.twin.shard import ReplayRow, Shard

DAY = 86_400_000
Json = dict[str, Any]


class Snapshot:
    """Everything of a shard that events speak of."""

    def __init__(self, shard: Shard) -> None:
        self.groups = {row.group_id: row for row in shard.group_rows()}
        self.members: dict[str, Json] = {}
        for row in shard.member_rows():
            self.members.setdefault(row.group_id, {})[row.member_id] = row
        self.offsets = {(row.group_id, row.topic, row.partition): row for row in shard.committed_rows()}
        self.pending = [row._asdict() for row in shard.pending_rows()]

    def due(self, slot: tuple[str, str, int], now: int, retention_ms: int, version: tuple[int, ...]) -> int | None:
        members = [row for of_group in self.members.values() for row in of_group.values()]
        tables = {
            "groups": [row._asdict() for row in self.groups.values()],
            "group_members": [row._asdict() for row in members],
            "committed_offsets": [self.offsets[slot]._asdict()],
            "pending_offsets": self.pending,
        }
        release = ".".join(map(str, version))
        ((judged,), _) = clean_up(tables, as_of=now, retention_ms=retention_ms, release_version=release)
        return judged["expires_at"] if judged["decision"] == "expire" else None

    def subscribes(self, group_id: str, topic: str) -> bool:
        return any(topic in (row.subscribed_topics or ()) for row in self.members.get(group_id, {}).values())


def number(row: Any) -> Any:
    return row.generation if row.group_type == "classic" else row.group_epoch


def events_of(rows: list[ReplayRow], shard: Shard, retention_ms: int, version: tuple[int, ...]) -> list[Json]:
    """The events, without event_index and times, by log offset and then in any order."""
    reported: list[Json] = []
    removed: dict[tuple[str, str, int], Any] = {}  # None: gone, with an unknown value
    gone_groups: set[str] = set()
    act: list[tuple[ReplayRow, Snapshot, Snapshot]] = []
    unknown: list[ReplayRow] = []
    for row in rows:
        is_act = row.kind == "group_record" or (row.kind == "offset_commit" and row.commit is None)
        if act and is_act and not is_one_act(act[-1][0], row):
            reported += act_events(act, unknown, gone_groups, retention_ms, version, shard.release)
            act, unknown = [], []
        before = Snapshot(shard)
        with suppress(ReplayFailure):
            shard.replay(row)
        after = Snapshot(shard)
        if is_act:
            act.append((row, before, after))
            slot = (row.group_id, row.topic, row.partition)
            pending = any((each["group_id"], each["topic"], each["partition"]) == slot for each in before.pending)
            is_general = not (shard.release.tombstone_removes_pending == "of_its_transaction" and row.is_transactional)
            if row.kind == "offset_commit" and slot not in before.offsets and slot not in removed and is_general:
                removed[slot] = None
                if not pending:
                    unknown.append(row)
                    place = {"topic": row.topic, "partition": row.partition, "cause": "unknown"}
                    reported.append(event(row, row.group_id, before, "offset_removed", **place))
        elif set(before.groups) != set(after.groups):
            if act:
                reported += act_events(act, unknown, gone_groups, retention_ms, version, shard.release)
                act, unknown = [], []
            gone_groups |= before.groups.keys() - after.groups.keys()
            gone_groups -= after.groups.keys()
        reported += moves(row, before, after, removed)
        for slot in before.offsets.keys() - after.offsets.keys():
            removed[slot] = before.offsets[slot]
    return reported + (act_events(act, unknown, gone_groups, retention_ms, version, shard.release) if act else [])


def is_one_act(row: ReplayRow, following: ReplayRow) -> bool:
    if None in (row.batch_offset, following.batch_offset):
        is_snapshot = row.record_type == 2 and row.value is not None
        return not is_snapshot and row.log_timestamp == following.log_timestamp
    return row.batch_offset == following.batch_offset


def moves(row: ReplayRow, before: Snapshot, after: Snapshot, removed: dict[Any, Any]) -> list[Json]:
    """The events of a value or a marker: groups that it creates or removes, offsets that it moves."""
    reported = []
    if row.kind in ("offset_commit", "marker"):
        for group_id in after.groups.keys() - before.groups.keys():
            reported.append(event(row, group_id, after, "group_created", value_after="Empty"))
        if row.kind == "marker":
            for group_id in before.groups.keys() - after.groups.keys():
                gone = event(row, group_id, before, "group_removed", value_before="Empty", cause="unknown")
                reported.append(gone)
    for slot, now in after.offsets.items():
        then = before.offsets.get(slot)
        was = then or removed.get(slot)
        if then is not None and then.log_offset == now.log_offset:
            continue
        removed.pop(slot, None)
        if was is None:
            continue
        group_id, topic, partition = slot
        members = after.members.get(group_id)
        place = {"topic": topic, "partition": partition}
        recreated = None not in (was.topic_id, now.topic_id) and was.topic_id != now.topic_id
        if recreated:
            ids = {"value_before": was.topic_id, "value_after": now.topic_id}
            reported.append(event(row, group_id, after, "topic_recreated", **place, **ids))
        if was.committed_offset < 0:
            continue
        if now.committed_offset < 0:
            name = "offset_unset"
        elif then is None:
            name = "offset_restarted"
        elif now.committed_offset < was.committed_offset:
            name = "offset_rewound"
        elif (
            now.committed_offset > was.committed_offset
            and row.kind == "offset_commit"
            and not recreated
            and not members
            and not after.groups[group_id].is_simple
        ):
            name = "offset_skipped"
        else:
            continue
        cause = "topic_recreated" if recreated else "transaction" if row.kind == "marker" else None
        is_simple = getattr(after.groups.get(group_id), "is_simple", True)
        cause = cause or ("with_members" if members else "self_assigned" if is_simple else "no_members")
        cause = None if name == "offset_unset" else cause
        offsets = {"offset_before": was.committed_offset, "offset_after": now.committed_offset}
        reported.append(event(row, group_id, after, name, **place, **offsets, cause=cause))
    return reported


def act_events(
    act: list[Any],
    unknown: list[ReplayRow],
    gone_groups: set[str],
    retention_ms: int,
    version: tuple[int, ...],
    rules: Release,
) -> list[Json]:
    """The events of an act: all that a coordinator did at one time. `unknown`: tombstones of offsets that were not
    there. `gone_groups`: groups known to be gone before the act; updated to those known to be gone after it."""
    removals = []
    for row, before, after in act:
        for slot in before.offsets.keys() - after.offsets.keys():
            removals.append((row, slot, before, after))
    first, last = act[0][1], act[-1][2]
    causes: dict[str, list[tuple[str, int | None]]] = {}
    reported = []
    for row, slot, before, _ in removals:
        cause = cause_of_removal(row, slot, before, removals, last, retention_ms, version, rules.coordinator)
        causes.setdefault(slot[0], []).append((cause["cause"], cause.get("overdue_since")))
        place = {"topic": slot[1], "partition": slot[2], "offset_before": before.offsets[slot].committed_offset}
        reported.append(event(row, slot[0], before, "offset_removed", **place, **cause))
    for row in unknown:
        causes.setdefault(row.group_id, [("unknown", None)])
    kinds = {2: "classic", 3: "consumer", 11: "share", 17: "streams"}
    for group_id in sorted({row.group_id for row, _, _ in act if row.kind == "group_record"} - last.groups.keys()):
        gone = [
            row
            for row, before, _ in act
            if row.group_id == group_id and row.record_type in kinds.keys() & rules.record_types
            if row.value is None and row.kind == "group_record" and group_id not in before.groups
        ]
        was_there = any(group_id in before.groups for _, before, _ in act)
        if gone and not was_there and group_id not in gone_groups:
            fields = {"group_type": kinds[gone[-1].record_type], "cause": "unknown"}
            reported.append({**event(gone[-1], group_id, last, "group_removed"), **fields})
    for group_id in sorted({row.group_id for row, _, _ in act if row.kind == "group_record"} | set(causes)):
        reported += group_events(group_id, act, first, last, causes.get(group_id, []), version)
    for row, before, _ in act:
        is_tombstone = row.kind == "group_record" and row.value is None
        is_known_type = row.record_type in kinds.keys() & rules.record_types
        if row.group_id in before.groups or (is_tombstone and is_known_type):
            gone_groups.add(row.group_id)
    gone_groups -= last.groups.keys()
    return reported


def cause_of_removal(
    row: ReplayRow,
    slot: tuple[str, str, int],
    before: Snapshot,
    removals: list[Any],
    last: Snapshot,
    retention_ms: int,
    version: tuple[int, ...],
    coordinator: str,
) -> Json:
    group_id, topic, _ = slot
    of_group = [each for each in removals if each[1][0] == group_id]
    anything_left = any(name[0] == group_id for name in last.offsets)
    gone = group_id not in last.groups
    gone |= coordinator == "scala" and first_is_simple(of_group) and not anything_left
    judged = of_group if gone else [(row, slot, before, None)]
    dues = [then.due(name, at.log_timestamp, retention_ms, version) for at, name, then, _ in judged]
    late: list[int] = []
    if all(due is not None for due in dues):
        for due, (at, _, then, _) in zip(dues, judged, strict=True):
            group = then.groups[group_id]
            if group.state == "Empty" and group.state_since is not None:
                since = max(due, group.state_since)
                late += [since] if at.log_timestamp - since > DAY else []
        if not late:
            return {"cause": "expired"}
    fits = set()
    if gone and not anything_left:
        fits.add("group_deleted")
    if (
        first_is_simple(of_group)
        and not anything_left
        and any(at.offsets[name].topic_id is None for _, name, at, _ in of_group)
    ):
        fits.add("group_deleted")
    deletes_offsets = version >= (2, 4)
    subscribed = before.subscribes(group_id, topic) and before.due(slot, 1 << 50, retention_ms, version) is None
    if deletes_offsets and not gone and not subscribed:
        fits.add("offset_deleted")
    if deletes_offsets and coordinator == "scala" and gone and first_is_simple(of_group) and len(of_group) == 1:
        fits.add("offset_deleted")
    after_last = [each[3] for each in removals if each[1][1] == topic][-1]
    nothing_left = not any(name[1] == topic for name in after_last.offsets)
    if gone:
        if coordinator == "scala" and nothing_left and len({each[1][1] for each in of_group}) == 1:
            fits.add("topic_deleted")
    elif nothing_left or subscribed:
        fits.add("topic_deleted")
    if late:
        return {"cause": "unknown", "overdue_since": min(late)} if fits else {"cause": "expired"}
    if (
        fits == {"offset_deleted", "topic_deleted"}
        and not gone
        and len({s[0] for _, s, _, _ in removals if s[1] == topic}) > 1
    ):
        return {"cause": "topic_deleted"}
    return {"cause": fits.pop() if len(fits) == 1 else "unknown"}


def first_is_simple(of_group: list[Any]) -> bool:
    _, slot, before, _ = of_group[0]
    group = before.groups.get(slot[0])
    return group is not None and bool(group.is_simple)


def group_events(
    group_id: str, act: list[Any], first: Snapshot, last: Snapshot, causes: list[Any], version: tuple[int, ...]
) -> list[Json]:
    place = None
    for row, before, after in act:
        if facts(before, group_id) != facts(after, group_id):
            place = row
    if place is None:
        return []
    reported = []
    touched = next(
        before
        for row, before, after in act
        if (row.group_id == group_id and row.kind == "group_record")
        or facts(before, group_id) != facts(after, group_id)
    )
    old, new = touched.groups.get(group_id), last.groups.get(group_id)
    if old is None and new is not None:
        reported.append(event(place, group_id, last, "group_created", value_after=new.state))
    if old is not None and new is not None:
        pairs = {
            "group_type_changed": (old.group_type, new.group_type),
            "state_changed": (old.state, new.state),
            "generation_changed": (str(number(old)), str(number(new))),
        }
        for name, (one, other) in pairs.items():
            if one != other:
                reported.append(event(place, group_id, last, name, value_before=one, value_after=other))
    kind = last if new is not None else touched
    were, are = touched.members.get(group_id, {}), last.members.get(group_id, {})
    left, joined = were.keys() - are.keys(), are.keys() - were.keys()
    for one, other in [(one, other) for one in left for other in joined]:
        instance = were[one].group_instance_id
        if instance is not None and instance == are[other].group_instance_id:
            ids = {"value_before": one, "value_after": other, **named(are[other])}
            reported.append(event(place, group_id, kind, "member_replaced", **ids))
            left, joined = left - {one}, joined - {other}
    reported += [event(place, group_id, kind, "member_left", **named(were[name])) for name in left]
    reported += [event(place, group_id, kind, "member_joined", **named(are[name])) for name in joined]
    if old is not None and new is not None and old.group_type == new.group_type:
        for name in were.keys() & are.keys():
            if assigned(were[name]) != assigned(are[name]):
                reported.append(event(place, group_id, last, "assignment_changed", member_id=name))
    if old is not None and new is None:
        offsets_before = any(slot[0] == group_id for slot in touched.offsets)
        overdue_since = None
        if causes:
            cause, overdue_since = causes[0] if len(set(causes)) == 1 else ("unknown", None)
        elif old.member_count or offsets_before:
            cause = "unknown"
        elif never_checked(group_id, old, touched, version):
            cause = "group_deleted"
        else:
            since = old.state_since
            overdue_since = since if since is not None and place.log_timestamp - since > DAY else None
            cause = "expired" if overdue_since is None else "unknown"
        why = {"value_before": old.state, "cause": cause, "overdue_since": overdue_since}
        reported.append(event(place, group_id, touched, "group_removed", **why))
    return reported


def named(member: Any) -> Json:
    return {name: getattr(member, name) for name in ("member_id", "group_instance_id", "client_id", "client_host")}


def never_checked(group_id: str, group: Any, snapshot: Snapshot, version: tuple[int, ...]) -> bool:
    """Whether no clean-up removes the group, although it is Empty and without committed offsets."""
    is_pending = any(row["group_id"] == group_id for row in snapshot.pending)
    return (is_pending and version >= (4, 0, 1)) or (group.group_type == "share" and version >= (4, 1))


def facts(snapshot: Snapshot, group_id: str) -> Any:
    group = snapshot.groups.get(group_id)
    members = {name: row._replace(log_offset=None) for name, row in snapshot.members.get(group_id, {}).items()}
    return None if group is None else group._replace(log_offset=None), members


def assigned(row: Any) -> Any:
    tasks = [(each.role, each.subtopology_id, each.partition) for each in row.assigned_tasks or ()]
    return tasks or [(each.topic, each.topic_id, each.partition) for each in row.assigned_partitions or ()]


def event(row: ReplayRow, group_id: str, snapshot: Snapshot, name: str, **fields: Any) -> Json:
    group = snapshot.groups.get(group_id)
    group_type = None if group is None else group.group_type
    return {"log_offset": row.log_offset, "group_id": group_id, "group_type": group_type, "event": name, **fields}
