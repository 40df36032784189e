"""Expiry in obvious loops over dicts of the current tables: the referee of offsets/expiry, no code in common.

Rows are dicts with the columns of the tables; times are epoch milliseconds; a missing column is None. `version` is a
tuple such as (4, 0, 1); `java` says which coordinator. The order of the ifs is the order of the clean-up in Kafka's
classes.
"""

LAST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z


def of_group(rows, group):
    key = (group["offsets_partition"], group["group_id"])
    return [row for row in rows if (row["offsets_partition"], row["group_id"]) == key]


def is_old(version):
    """Before 2.1 an offset's own time decided, whatever its group did."""
    return version < (2, 1)


def unsubscribed_topics_expire(version, state):
    if version < (2, 4):
        return False
    before_kafka_13636 = version < (2, 8, 2) or (3, 0) <= version < (3, 0, 1) or (3, 1) <= version < (3, 1, 1)
    if before_kafka_13636:
        return state in ("PreparingRebalance", "CompletingRebalance", "Stable")
    return state == "Stable"


def blocking_reason(group, members, version):
    """Why nothing of the group expires at all, or None."""
    if is_old(version):
        return None
    if group["group_type"] == "share":
        return "share_group"
    if group["group_type"] != "classic" or group["state"] == "Empty":
        return None
    if group.get("protocol_type") != "consumer" or not unsubscribed_topics_expire(version, group["state"]):
        return "group_active"
    if group.get("protocol") is None or not members:
        return "subscription_unknown"
    if any(member.get("subscribed_topics") is None for member in members):
        return "subscription_unknown"
    return None


def is_subscribed(topic, group, members, version):
    if is_old(version):
        return False
    if group["group_type"] == "streams":
        unread = ("Empty", "Dead", "NotReady") if version < (4, 2) else ("Empty", "Dead")
        if group["state"] in unread or group.get("topology") is None:
            return False
        for subtopology in group["topology"]["subtopologies"]:
            if topic in subtopology["sourceTopics"]:
                return True
            if topic in [info["name"] for info in subtopology["repartitionSourceTopics"]]:
                return True
        return False
    for member in members:
        if topic in (member.get("subscribed_topics") or []):
            return True
    if group["group_type"] == "consumer":
        for topics in (group.get("resolved_regex_topics") or {}).values():
            if topic in topics:
                return True
    return False


def expire_time(offset, version):
    """The time that is in the offset itself, as the release reads it, or None."""
    if version < (0, 9):
        return None
    if offset.get("expire_timestamp") is not None:
        return offset["expire_timestamp"]
    if (2, 1) <= version < (2, 2) and offset["value_version"] == 1:
        return -1
    return None


def base_of(offset, group, version):
    """Name and time of what the retention is counted from."""
    own = expire_time(offset, version)
    if own is not None:
        return "expire_timestamp", own
    is_empty_classic = (
        group["group_type"] == "classic" and group["state"] == "Empty" and bool(group.get("protocol_type"))
    )
    if not is_old(version) and is_empty_classic and group.get("current_state_timestamp") is not None:
        return "current_state_timestamp", group["current_state_timestamp"]
    commit = offset.get("commit_timestamp")
    return "commit_timestamp", -1 if commit is None else commit


def due_time(base, base_time, retention_ms, version):
    due = base_time if base == "expire_timestamp" else base_time + retention_ms
    return due + 1 if is_old(version) else due


def if_empty(offset, group, due, as_of, retention_ms, version):
    """When it would go, had the last member left at as_of."""
    if is_old(version):
        return due
    if group["group_type"] == "share":
        return None
    if group["state"] == "Empty":
        return due
    own = expire_time(offset, version)
    if own is not None:
        return max(as_of, own)
    if group["group_type"] == "classic":
        return as_of + retention_ms
    commit = offset.get("commit_timestamp")
    return max(as_of, (-1 if commit is None else commit) + retention_ms)


def failing_partitions(committed_offsets, groups, version):
    """Offsets partitions whose clean-up throws: a share group is asked for an expiration condition."""
    if not ((4, 0) <= version < (4, 1) or version >= (4, 4)):
        return set()
    share = {(group["offsets_partition"], group["group_id"]) for group in groups if group["group_type"] == "share"}
    named = {(offset["offsets_partition"], offset["group_id"]) for offset in committed_offsets}
    return {partition for partition, _ in share & named}


def judge_offset(offset, groups, group_members, pending_offsets, as_of, retention_ms, version, java, failing=()):
    """(reason, base, base_timestamp, expires_at, expires_at_if_empty) of one committed offset; `failing`: see
    failing_partitions."""
    judged = _judge_offset(offset, groups, group_members, pending_offsets, as_of, retention_ms, version, java)
    if offset["offsets_partition"] not in failing:
        return judged
    reason, base, base_time, due, _ = judged
    return ("clean_up_fails" if due is not None else reason), base, base_time, None, None


def _judge_offset(offset, groups, group_members, pending_offsets, as_of, retention_ms, version, java):
    found = of_group(groups, offset)
    if not found:
        return "orphan", None, None, None, None
    group = found[0]
    members = of_group(group_members, group)
    base, base_time = base_of(offset, group, version)
    due = due_time(base, base_time, retention_ms, version)
    slot = (offset["topic"], offset["partition"])
    is_pending = any((row["topic"], row["partition"]) == slot for row in of_group(pending_offsets, group))
    spared = is_pending and java and version >= (3, 8)
    later = None if spared else if_empty(offset, group, due, as_of, retention_ms, version)
    later = None if later is None else min(later, LAST_MS)

    blocked = blocking_reason(group, members, version)
    if blocked:
        return blocked, None, None, None, later
    if is_subscribed(offset["topic"], group, members, version):
        has_members = group["state"] != "Empty"
        return "subscribed", base, base_time, None, later if has_members else None
    if spared:
        return "pending_transaction", base, base_time, None, None
    if base == "expire_timestamp":
        reason = "expire_timestamp_passed" if as_of >= due else "before_expire_timestamp"
    else:
        reason = "retention_passed" if as_of >= due else "within_retention"
    return reason, base, base_time, min(due, LAST_MS), later


def expires(reason):
    return reason in ("expire_timestamp_passed", "retention_passed")


def judge_group(group, judged_offsets, pending_offsets, held_groups, as_of, version, java, failing=()):
    """(reason, deletes_at, writes_tombstone) of one group; judged_offsets: judge_offset of each of its committed
    offsets."""
    writes_tombstone = java or (group.get("generation") or 0) > 0
    is_open = bool(of_group(pending_offsets, group))
    if java and (3, 8) <= version < (4, 0, 1):
        held = (group["offsets_partition"], group["group_id"]) in held_groups
        keeps_open = (is_open or held) and bool(judged_offsets)
    elif java and version < (3, 8):
        keeps_open = False
    else:
        keeps_open = is_open
    is_kept_share = group["group_type"] == "share" and java and version >= (4, 1)
    is_described = version >= (4, 4) and group.get("stored_description_epoch") is not None

    reason = "empty_and_nothing_left"
    if group["state"] != "Empty":
        reason = "has_members"
    elif any(not expires(judged[0]) for judged in judged_offsets):
        reason = "offsets_left"
    elif keeps_open:
        reason = "open_transaction"
    elif is_kept_share:
        reason = "share_group"
    elif group["offsets_partition"] in failing:
        reason = "clean_up_fails"
    elif is_described:
        reason = "topology_description"

    times = [judged[3] for judged in judged_offsets]
    is_kept = keeps_open or is_kept_share or group["offsets_partition"] in failing or is_described
    if reason == "has_members" or is_kept or None in times:
        return reason, None, writes_tombstone
    return reason, max(times, default=as_of), writes_tombstone
