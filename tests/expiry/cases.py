"""Small states of the current tables with what a clean-up does to them; the names T10 to T56 are those of the project's
list of cases that a naive implementation gets wrong. All are judged at NOW with a retention of seven days."""

from dataclasses import dataclass, field

DAY = 86_400_000
R = 7 * DAY
NOW = 1_763_000_000_000
PARTITION = 3


def ago(days, ms=0):
    return round(NOW - days * DAY) + ms


def offset(topic, committed, expire=None, partition=0, version=3):
    return {
        "topic": topic,
        "partition": partition,
        "committed_offset": 40,
        "log_offset": 11,
        "commit_timestamp": committed,
        "expire_timestamp": expire,
        "value_version": 1 if expire is not None else version,
    }


def group(group_type, state, **columns):
    return {"group_type": group_type, "state": state, **columns}


def simple():
    return group("classic", "Empty", generation=0)


def empty(since, protocol_type="consumer", generation=4):
    return group("classic", "Empty", protocol_type=protocol_type, generation=generation, current_state_timestamp=since)


def stable(protocol_type="consumer", protocol="range"):
    return group(
        "classic",
        "Stable",
        protocol_type=protocol_type,
        protocol=protocol,
        generation=4,
        current_state_timestamp=ago(90),
    )


def member(*topics):
    return {"subscribed_topics": list(topics)}


UNREADABLE = {"subscribed_topics": None}
TOPOLOGY = {
    "subtopologies": [
        {"sourceTopics": ["src"], "repartitionSourceTopics": []},
        {"sourceTopics": ["src2"], "repartitionSourceTopics": [{"name": "app-repartition"}]},
    ]
}


@dataclass(frozen=True)
class Case:
    """`offsets` of one group and, per topic, the expected (reason, base, expires_at, expires_at_if_empty); of the group
    the expected (reason, deletes_at, writes_tombstone), None where there is no group."""

    name: str
    release: str
    group: dict | None
    offsets: list[dict]
    expected: dict[str, tuple]
    expected_group: tuple | None
    members: list[dict] = field(default_factory=list)
    pending: list[tuple[str, int]] = field(default_factory=list)
    is_held: bool = False

    def tables(self):
        key = {"offsets_partition": PARTITION, "group_id": self.name}
        return {
            "groups": [] if self.group is None else [{**key, **self.group}],
            "group_members": [{**key, **row} for row in self.members],
            "committed_offsets": [{**key, **row} for row in self.offsets],
            "pending_offsets": [{**key, "topic": topic, "partition": partition} for topic, partition in self.pending],
        }

    def held_groups(self):
        return {(PARTITION, self.name)} if self.is_held else set()


PASSED, WITHIN = "retention_passed", "within_retention"
COMMIT, EMPTIED, GIVEN = "commit_timestamp", "current_state_timestamp", "expire_timestamp"
GONE, LEFT, MEMBERS = "empty_and_nothing_left", "offsets_left", "has_members"
ACTIVE = ("group_active", None, None, NOW + R)

# An offset that was committed 8 days ago, and what its commit time brings.
EIGHT_DAYS, DUE_YESTERDAY = [offset("t", ago(8))], {"t": (PASSED, COMMIT, ago(1), ago(1))}

CASES = [
    Case(
        "T10 committed yesterday, Empty for 8 days",
        "4.3",
        empty(ago(8)),
        [offset("t", ago(1))],
        {"t": (PASSED, EMPTIED, ago(1), ago(1))},
        (GONE, ago(1), True),
    ),
    Case(
        "T10 the other way round: committed 30 days ago, Empty since yesterday",
        "4.3",
        empty(ago(1)),
        [offset("t", ago(30))],
        {"t": (WITHIN, EMPTIED, NOW + 6 * DAY, NOW + 6 * DAY)},
        (LEFT, NOW + 6 * DAY, True),
    ),
    Case(
        "T11 T9 Empty since nobody knows when: each offset on its own",
        "4.3",
        empty(None),
        [offset("old", ago(8)), offset("new", ago(6))],
        {"old": (PASSED, COMMIT, ago(1), ago(1)), "new": (WITHIN, COMMIT, NOW + DAY, NOW + DAY)},
        (LEFT, NOW + DAY, True),
    ),
    Case(
        "T12 due at this very millisecond and one later",
        "4.3",
        simple(),
        [offset("due", ago(7)), offset("later", ago(7, +1))],
        {"due": (PASSED, COMMIT, NOW, NOW), "later": (WITHIN, COMMIT, NOW + 1, NOW + 1)},
        (LEFT, NOW + 1, True),
    ),
    Case(
        "T12 explicit time due at this very millisecond and one later",
        "4.3",
        simple(),
        [offset("due", ago(90), NOW), offset("later", ago(90), NOW + 1)],
        {
            "due": ("expire_timestamp_passed", GIVEN, NOW, NOW),
            "later": ("before_expire_timestamp", GIVEN, NOW + 1, NOW + 1),
        },
        (LEFT, NOW + 1, True),
    ),
    Case(
        "T12 became Empty a retention ago, to the millisecond",
        "3.9",
        empty(ago(7)),
        [offset("t", ago(1))],
        {"t": (PASSED, EMPTIED, NOW, NOW)},
        (GONE, NOW, True),
    ),
    Case(
        "T12 became Empty one millisecond too late",
        "3.9",
        empty(ago(7, +1)),
        [offset("t", ago(90))],
        {"t": (WITHIN, EMPTIED, NOW + 1, NOW + 1)},
        (LEFT, NOW + 1, True),
    ),
    Case(
        "T12 before 2.1 the boundary is strict",
        "2.0",
        simple(),
        [
            offset("due", ago(7), version=1),
            offset("over", ago(7, -1), version=1),
            offset("given", ago(90), NOW),
            offset("given-over", ago(90), NOW - 1),
        ],
        {
            "due": (WITHIN, COMMIT, NOW + 1, NOW + 1),
            "over": (PASSED, COMMIT, NOW, NOW),
            "given": ("before_expire_timestamp", GIVEN, NOW + 1, NOW + 1),
            "given-over": ("expire_timestamp_passed", GIVEN, NOW, NOW),
        },
        (LEFT, NOW + 1, False),
    ),
    Case(
        "T13 T16 Stable consumer group",
        "4.3",
        stable(),
        [offset("subscribed", ago(90)), offset("other", ago(90)), offset("fresh", ago(2))],
        {
            "subscribed": ("subscribed", COMMIT, None, NOW + R),
            "other": (PASSED, COMMIT, ago(83), NOW + R),
            "fresh": (WITHIN, COMMIT, NOW + 5 * DAY, NOW + R),
        },
        (MEMBERS, None, True),
        members=[member("a", "subscribed"), member()],
    ),
    Case(
        "T14 Stable connect group",
        "4.3",
        stable("connect"),
        [offset("t", ago(900))],
        {"t": ACTIVE},
        (MEMBERS, None, True),
        members=[UNREADABLE],
    ),
    Case(
        "T15 one unreadable subscription of two",
        "4.3",
        stable(),
        [offset("subscribed", ago(90)), offset("other", ago(90))],
        {
            "subscribed": ("subscription_unknown", None, None, NOW + R),
            "other": ("subscription_unknown", None, None, NOW + R),
        },
        (MEMBERS, None, True),
        members=[member("subscribed"), UNREADABLE],
    ),
    Case(
        "T15 no protocol chosen: nobody reads the subscriptions",
        "4.3",
        stable(protocol=None),
        [offset("other", ago(90))],
        {"other": ("subscription_unknown", None, None, NOW + R)},
        (MEMBERS, None, True),
        members=[member("t")],
    ),
    Case(
        "T17 explicit time long past, topic subscribed",
        "4.3",
        stable(),
        [offset("t", ago(90), ago(30)), offset("other", ago(90), ago(30))],
        {"t": ("subscribed", GIVEN, None, NOW), "other": ("expire_timestamp_passed", GIVEN, ago(30), NOW)},
        (MEMBERS, None, True),
        members=[member("t")],
    ),
    Case(
        "T18 simple group, Java: a tombstone though no value was ever there",
        "4.3",
        simple(),
        EIGHT_DAYS,
        DUE_YESTERDAY,
        (GONE, ago(1), True),
    ),
    Case(
        "T18 simple group, Scala: none at generation 0",
        "3.9",
        simple(),
        EIGHT_DAYS,
        DUE_YESTERDAY,
        (GONE, ago(1), False),
    ),
    Case("T18 group of generation 1, Scala", "3.9", empty(ago(8), generation=1), [], {}, (GONE, NOW, True)),
    Case(
        "T43 a placeholder snapshot is a simple group",
        "4.3",
        group("classic", "Empty", protocol_type="", generation=0, current_state_timestamp=ago(1)),
        EIGHT_DAYS,
        DUE_YESTERDAY,
        (GONE, ago(1), True),
    ),
    Case(
        "T30 orphans are never looked at",
        "4.3",
        None,
        [offset("t", ago(900)), offset("given", ago(900), ago(800))],
        {"t": ("orphan", None, None, None), "given": ("orphan", None, None, None)},
        None,
    ),
    Case(
        "T51 pending on the same partition spares, Java 3.8 on; the group stays",
        "4.3",
        simple(),
        [offset("t", ago(8)), offset("t", ago(8), partition=1), offset("u", ago(8))],
        {
            ("t", 0): ("pending_transaction", COMMIT, None, None),
            ("t", 1): (PASSED, COMMIT, ago(1), ago(1)),
            ("u", 0): (PASSED, COMMIT, ago(1), ago(1)),
        },
        (LEFT, None, True),
        pending=[("t", 0), ("t", 0)],
    ),
    Case(
        "T51 Scala does not spare, and keeps the group",
        "3.9",
        simple(),
        EIGHT_DAYS,
        DUE_YESTERDAY,
        ("open_transaction", None, False),
        pending=[("t", 0)],
    ),
    Case(
        "T51 Java 3.7 does not spare, and deletes the group",
        "3.7-java",
        simple(),
        EIGHT_DAYS,
        DUE_YESTERDAY,
        (GONE, ago(1), True),
        pending=[("t", 0)],
    ),
    Case("T52 only pending offsets, 4.0.0", "4.0.0", simple(), [], {}, (GONE, NOW, True), pending=[("t", 0)]),
    Case("T52 only pending offsets, 3.8", "3.8-java", simple(), [], {}, (GONE, NOW, True), pending=[("t", 0)]),
    Case(
        "T52 only pending offsets, 4.0.1",
        "4.0.1",
        simple(),
        [],
        {},
        ("open_transaction", None, True),
        pending=[("t", 0)],
    ),
    Case(
        "3.8 to 4.0.0 leak a transaction: all expire, the group stays",
        "4.0.0",
        simple(),
        EIGHT_DAYS,
        DUE_YESTERDAY,
        ("open_transaction", None, True),
        is_held=True,
    ),
    Case(
        "3.8 to 4.0.0 do not look at the leak without offsets",
        "3.9-java",
        simple(),
        [],
        {},
        (GONE, NOW, True),
        is_held=True,
    ),
    Case("4.0.1 does not leak", "4.0.1", simple(), EIGHT_DAYS, DUE_YESTERDAY, (GONE, ago(1), True), is_held=True),
    Case(
        "T53 last member of a consumer group gone, committed 8 days ago",
        "4.3",
        group("consumer", "Empty"),
        EIGHT_DAYS,
        DUE_YESTERDAY,
        (GONE, ago(1), True),
    ),
    Case(
        "T53 the day before: its member is there",
        "4.3",
        group("consumer", "Reconciling", resolved_regex_topics={"r.*": ["regex"]}),
        [offset("t", ago(8)), offset("u", ago(2)), offset("regex", ago(8)), offset("other", ago(8))],
        {
            "t": ("subscribed", COMMIT, None, NOW),
            "u": ("subscribed", COMMIT, None, NOW + 5 * DAY),
            "regex": ("subscribed", COMMIT, None, NOW),
            "other": (PASSED, COMMIT, ago(1), NOW),
        },
        (MEMBERS, None, True),
        members=[member("t"), member("t", "u")],
    ),
    Case("T54 Empty without offsets", "4.3", empty(NOW), [], {}, (GONE, NOW, True)),
    Case("T54 simple group without offsets (T29)", "4.3", simple(), [], {}, (GONE, NOW, True)),
    Case("T55 Empty share group", "4.1.0", group("share", "Empty"), [], {}, ("share_group", None, True)),
    Case("T55 4.0 deleted an Empty share group", "4.0.2", group("share", "Empty"), [], {}, (GONE, NOW, True)),
    Case(
        "T55 an offset that strayed into a share group",
        "4.3",
        group("share", "Empty"),
        [offset("t", ago(900))],
        {"t": ("share_group", None, None, None)},
        (LEFT, None, True),
    ),
    Case(
        "T56 2.1 reads -1 as a time",
        "2.1.1",
        empty(ago(1)),
        [offset("v1", ago(2), version=1), offset("v3", ago(2)), offset("given", ago(2), NOW + 5)],
        {
            "v1": ("expire_timestamp_passed", GIVEN, -1, -1),
            "v3": (WITHIN, EMPTIED, NOW + 6 * DAY, NOW + 6 * DAY),
            "given": ("before_expire_timestamp", GIVEN, NOW + 5, NOW + 5),
        },
        (LEFT, NOW + 6 * DAY, True),
    ),
    Case(
        "T56 2.2 does not",
        "2.2",
        empty(ago(1)),
        [offset("v1", ago(2), version=1)],
        {"v1": (WITHIN, EMPTIED, NOW + 6 * DAY, NOW + 6 * DAY)},
        (LEFT, NOW + 6 * DAY, True),
    ),
    Case(
        "before 2.1 a living group's offsets expire",
        "1.1",
        stable(),
        [offset("subscribed", ago(8), version=1), offset("given", ago(90), ago(80))],
        {
            "subscribed": (PASSED, COMMIT, ago(1, +1), ago(1, +1)),
            "given": ("expire_timestamp_passed", GIVEN, ago(80, +1), ago(80, +1)),
        },
        (MEMBERS, None, True),
        members=[member("subscribed")],
    ),
    Case(
        "before 2.1 it does not matter since when a group is Empty",
        "0.11",
        empty(ago(90)),
        [offset("t", ago(1), version=1)],
        {"t": (WITHIN, COMMIT, NOW + 6 * DAY + 1, NOW + 6 * DAY + 1)},
        (LEFT, NOW + 6 * DAY + 1, True),
    ),
    Case(
        "0.8 knows no explicit time",
        "0.8.2.2",
        simple(),
        [offset("t", ago(1), ago(90)), offset("due", ago(7), version=0), offset("over", ago(7, -1), version=0)],
        {
            "t": (WITHIN, COMMIT, NOW + 6 * DAY + 1, NOW + 6 * DAY + 1),
            "due": (WITHIN, COMMIT, NOW + 1, NOW + 1),
            "over": (PASSED, COMMIT, NOW, NOW),
        },
        (LEFT, NOW + 6 * DAY + 1, False),
    ),
    Case(
        "2.1 to 2.3 expire nothing of a group with members",
        "2.3",
        stable(),
        [offset("other", ago(90))],
        {"other": ACTIVE},
        (MEMBERS, None, True),
        members=[member("t")],
    ),
    Case(
        "KAFKA-13636 rebalancing, 2.8.1",
        "2.8.1",
        {**stable(), "state": "PreparingRebalance"},
        [offset("other", ago(90)), offset("t", ago(90))],
        {"other": (PASSED, COMMIT, ago(83), NOW + R), "t": ("subscribed", COMMIT, None, NOW + R)},
        (MEMBERS, None, True),
        members=[member("t")],
    ),
    Case(
        "KAFKA-13636 rebalancing, 2.8.2",
        "2.8.2",
        {**stable(), "state": "PreparingRebalance"},
        [offset("other", ago(90))],
        {"other": ACTIVE},
        (MEMBERS, None, True),
        members=[member("t")],
    ),
    Case(
        "streams: 4.1 forgets its topology at a load",
        "4.1.2",
        group("streams", "NotReady", topology=TOPOLOGY),
        [offset("src", ago(8))],
        {"src": (PASSED, COMMIT, ago(1), NOW)},
        (MEMBERS, None, True),
    ),
    Case(
        "streams: its topology description outlives its offsets",
        "4.4",
        group("streams", "Empty", topology=TOPOLOGY, stored_description_epoch=0),
        [offset("src", ago(8))],
        {"src": (PASSED, COMMIT, ago(1), ago(1))},
        ("topology_description", None, True),
    ),
    Case(
        "streams: topics of its sources and repartitions are subscribed",
        "4.3",
        group("streams", "Stable", topology=TOPOLOGY),
        [offset("src", ago(8)), offset("app-repartition", ago(8)), offset("other", ago(8))],
        {
            "src": ("subscribed", COMMIT, None, NOW),
            "app-repartition": ("subscribed", COMMIT, None, NOW),
            "other": (PASSED, COMMIT, ago(1), NOW),
        },
        (MEMBERS, None, True),
    ),
    Case(
        "a commit time that no TIMESTAMP holds is the millisecond before 1970",
        "4.3",
        simple(),
        [offset("t", None)],
        {"t": (PASSED, COMMIT, R - 1, R - 1)},
        (GONE, R - 1, True),
    ),
]
