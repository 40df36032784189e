"""Generated groups and offsets, and what the slow twin decides on them."""

import random

from kgroups_spark.tables.schemas import TABLES
from tests.expiry import twin
from tests.expiry.frames import AUDIT_ID
from tests.expiry.versions import parsed

DAY = 86_400_000
R = 7 * DAY
NOW = 1_763_000_000_000
TOPICS = ["a", "b", "c", "Ünï.code"]
GROUPS_PER_RELEASE = 700
# So many that in most of them no share group has offsets.
PARTITIONS = 300
CLASSIC_STATES = ["Empty", "Empty", "Stable", "Stable", "PreparingRebalance", "CompletingRebalance", "Dead"]
OTHER_STATES = ["Empty", "Assigning", "Reconciling", "Stable", "NotReady"]


def some(rng, topics=TOPICS):
    return rng.sample(topics, rng.randrange(len(topics)))


def moment(rng):
    """A time, or none; every third is at a boundary."""
    return rng.choice(
        [
            None,
            NOW - R + rng.randrange(-1, 2),
            NOW + rng.randrange(-1, 2),
            NOW - rng.randrange(20 * DAY),
            NOW + rng.randrange(20 * DAY),
            rng.choice([0, 4_000_000_000_000, twin.LAST_MS, -5]),
        ]
    )


def topology(rng):
    if rng.random() < 0.2:
        return None
    return {
        "epoch": 1,
        "subtopologies": [
            {
                "subtopologyId": str(i),
                "sourceTopics": some(rng),
                "repartitionSourceTopics": [{"name": name, "partitions": 3} for name in some(rng)[:1]],
            }
            for i in range(rng.randrange(3))
        ],
    }


def group_types(release):
    """The types of groups that the release has, classic ones more often."""
    version, java = parsed(release)
    newer = [("consumer", java), ("share", version >= (4, 0)), ("streams", version >= (4, 1))]
    return ["classic", "classic", *(name for name, exists in newer if exists)]


def group_row(rng, key, types):
    group_type = rng.choice(types)
    row = {
        **key,
        "group_type": group_type,
        "state": rng.choice(CLASSIC_STATES if group_type == "classic" else OTHER_STATES),
    }
    if group_type == "classic":
        row["protocol_type"] = rng.choice([None, "", "consumer", "consumer", "connect"])
        row["protocol"] = rng.choice([None, "range", "range", "range"])
        row["generation"] = rng.choice([0, 0, 1, 9])
        row["current_state_timestamp"] = moment(rng)
    elif group_type == "consumer":
        row["resolved_regex_topics"] = rng.choice([None, {}, {"x.*": some(rng), "y": some(rng)}])
    elif group_type == "streams":
        row["topology"] = topology(rng)
        row["stored_description_epoch"] = rng.choice([None, None, -2, 0, 3])
    return row


def member_rows(rng, key, group):
    count = rng.randrange(3) if group["state"] != "Empty" else 0
    return [{**key, "subscribed_topics": None if rng.random() < 0.1 else some(rng)} for _ in range(count)]


def slots(rng, key, count):
    every = [(topic, partition) for topic in TOPICS for partition in range(2)]
    return [{**key, "topic": topic, "partition": partition} for topic, partition in rng.sample(every, count)]


def offset_rows(rng, key):
    return [
        {
            **slot,
            "committed_offset": rng.randrange(1 << 60),
            "log_offset": rng.randrange(1 << 60),
            "commit_timestamp": moment(rng),
            "expire_timestamp": moment(rng) if rng.random() < 0.3 else None,
            "value_version": rng.randrange(5),
        }
        for slot in slots(rng, key, rng.choice([0, 1, 1, 2, 4]))
    ]


def generated(release):
    """Tables of many small groups, and groups that leaked a transaction. Group ids repeat in another offsets
    partition."""
    rng = random.Random(f"expiry {release}")
    tables = {"groups": [], "group_members": [], "committed_offsets": [], "pending_offsets": []}
    held = set()
    for i in range(GROUPS_PER_RELEASE):
        key = {"offsets_partition": i % PARTITIONS, "group_id": f"group {i // PARTITIONS}"}
        group = group_row(rng, key, group_types(release))
        if rng.random() < 0.95:
            tables["groups"].append(group)
        tables["group_members"] += member_rows(rng, key, group)
        tables["committed_offsets"] += offset_rows(rng, key)
        if rng.random() < 0.3:
            pending = slots(rng, key, rng.choice([1, 2, 4]))
            tables["pending_offsets"] += pending + pending[:1]
        if rng.random() < 0.1:
            held.add((key["offsets_partition"], key["group_id"]))
    return tables, held


def by_group(rows):
    result = {}
    for row in rows:
        result.setdefault((row["offsets_partition"], row["group_id"]), []).append(row)
    return result


def twin_rows(tables, held, release):
    """The twin's decisions on the tables, as rows of the two result tables."""
    version, java = parsed(release)
    grouped = {name: by_group(rows) for name, rows in tables.items()}
    head = {"audit_id": AUDIT_ID, "as_of": NOW, "retention_ms": R}
    offsets, groups = [], []
    failing = twin.failing_partitions(tables["committed_offsets"], tables["groups"], version)
    for key in sorted({*grouped["groups"], *grouped["committed_offsets"]}):
        own = {name: rows.get(key, []) for name, rows in grouped.items()}
        judged = []
        for row in own["committed_offsets"]:
            answer = twin.judge_offset(
                row, own["groups"], own["group_members"], own["pending_offsets"], NOW, R, version, java, failing
            )
            judged.append(answer)
            named = dict(
                zip(("reason", "base", "base_timestamp", "expires_at", "expires_at_if_empty"), answer, strict=True)
            )
            decision = "expire" if twin.expires(answer[0]) else "keep"
            offsets.append({**head, **row, **named, "decision": decision})
        for row in own["groups"]:
            answer = twin.judge_group(row, judged, own["pending_offsets"], held, NOW, version, java, failing)
            named = dict(zip(("reason", "deletes_at", "writes_tombstone"), answer, strict=True))
            decision = "delete" if answer[0] == "empty_and_nothing_left" else "keep"
            groups.append({**head, **row, **named, "decision": decision})
    return only(offsets, TABLES["offset_expiry"].columns), only(groups, TABLES["group_expiry"].columns)


def only(rows, schema):
    return [{name: row.get(name) for name in schema.names} for row in rows]


def in_order(rows):
    return sorted(
        rows,
        key=lambda row: tuple(str(row.get(name)) for name in ("offsets_partition", "group_id", "topic", "partition")),
    )


def as_if_empty(row, now):
    """The decision of a row as if the last member of its group had left `now`, in whatever form its times are."""
    moment = row["expires_at_if_empty"]
    if moment in (None, row["expires_at"]):
        return row
    decision, reason = ("expire", "retention_passed") if moment <= now else ("keep", "within_retention")
    return row | {"expires_at": moment, "decision": decision, "reason": reason}
