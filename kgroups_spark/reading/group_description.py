"""A group now or as of a moment: its state, members and offsets, from the tables and views of a lake.

A group may be in two partitions of __consumer_offsets: each has its own description.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kgroups_spark.reading.gone_groups import Removal, last_removal
from kgroups_spark.reading.group_facts import GroupFacts, OffsetSums, Place, Row, What, values_by_place
from kgroups_spark.reading.group_options import require_known
from kgroups_spark.reading.reader import LakeReader, Rows
from kgroups_spark.tables.conditions import partitions_in_lots
from kgroups_spark.times import to_datetime

DEAD = "Dead"


@dataclass
class Description:
    """`group`: its row of `groups`; None: it does not exist. `as_of`: the moment of offsets and members. `is_split`:
    the group is in two partitions of __consumer_offsets. `sums`: the sums of its offsets; None: computed from
    `offsets`. `share_known`: `known` of __share_group_state at the moment (state_known_as_of), for offsets of share
    groups; None: that log was not read."""

    group_id: str
    offsets_partition: int | None
    as_of: datetime
    group: Row | None
    members: Rows
    offsets: Rows = field(default_factory=list)
    removal: Removal | None = None
    is_split: bool = False
    sums: OffsetSums | None = None
    share_known: str | None = None

    @property
    def state(self) -> str:
        """The group's state; Dead for a group that does not exist, as in Kafka."""
        return DEAD if self.group is None else str(self.group["state"])

    @property
    def group_type(self) -> str | None:
        return None if self.group is None else self.group["group_type"]


# The number of offsets or members that are Python objects at once; each takes about 1 kB with its other facts.
AT_ONCE = 100_000


def describe_groups(
    reader: LakeReader,
    groups: list[str] | None,
    as_of: datetime | None,
    what: What = "offsets",
    *,
    times_as_text: bool = False,
) -> Iterator[Description]:
    """The groups (None: all existing ones) now or as of a moment; removed groups in their last state.

    Sorted by name and partition. For all groups of a large lake they come a few offsets partitions at a time, so that
    memory holds at most AT_ONCE rows. `what`: the wanted rows; `members` leaves out offsets, `state` has `sums`
    instead. `times_as_text`: times of offsets as text for JSON, at a tenth of the CPU. Raises KgroupsError for a name
    that no record has.
    """
    places, lots = _in_lots(reader, groups, as_of, what, times_as_text)
    names = Counter(group_id for _, group_id in places)
    gone = sorted(set(groups or ()) - names.keys())
    require_known(reader, gone)
    removed = [_gone(reader, group_id, as_of) for group_id in gone]
    for here, facts in lots:
        found = [_description(facts, place, what, is_split=names[place[1]] > 1) for place in here]
        yield from sorted([*found, *removed], key=lambda each: (each.group_id, each.offsets_partition or 0))
        removed = []


def _description(facts: GroupFacts, place: Place, what: What, *, is_split: bool) -> Description:
    offsets_partition, group_id = place
    return Description(
        group_id,
        offsets_partition,
        facts.as_of,
        facts.groups.get(place),
        facts.members_for(what, place),
        facts.offsets(place) if what == "offsets" else [],
        is_split=is_split,
        sums=facts.sums(place) if what == "state" else None,
        share_known=facts.share_known(place) if what == "offsets" else None,
    )


def _in_lots(
    reader: LakeReader, groups: list[str] | None, as_of: datetime | None, what: What, times_as_text: bool
) -> tuple[Collection[Place], Iterable[tuple[Collection[Place], GroupFacts]]]:
    """The places with a group, or with offsets without one; and the same in lots, each with its facts. Named groups are
    one lot, whose facts have the places, too."""
    if groups is not None:
        facts = GroupFacts(reader, groups, as_of, times_as_text=times_as_text)
        places = facts.places(what)
        return places, [(places, facts)]
    counts = _places(reader, as_of, what)
    by_partition = defaultdict[int, list[Place]](list)
    for place in counts:
        by_partition[place[0]].append(place)
    return counts, (
        (
            [place for partition in lot for place in by_partition[partition]],
            GroupFacts(reader, None, as_of, lot, times_as_text=times_as_text),
        )
        for lot in _lots(counts)
    )


def _places(reader: LakeReader, as_of: datetime | None, what: What) -> dict[Place, int]:
    """The places of all groups, with the number of wanted rows there (offsets or members)."""
    of = "{}" if as_of is None else "{}_as_of(:as_of)"
    parts = [
        f"SELECT offsets_partition, group_id, {count} AS wanted FROM {of.format(name)}"
        for name, count in (
            ("groups", "member_count" if what == "members" else 0),
            ("committed_offsets", 1 if what == "offsets" else 0),
        )
    ]
    query = (
        "SELECT offsets_partition, group_id, CAST(sum(wanted) AS BIGINT) AS wanted "
        f"FROM ({' UNION ALL '.join(parts)}) AS places GROUP BY offsets_partition, group_id"
    )
    return values_by_place(reader.arrow(query, {} if as_of is None else {"as_of": as_of}), "wanted")


def _lots(places: Mapping[Place, int]) -> list[list[int]]:
    """The offsets partitions in lots of AT_ONCE rows, or of one partition; one lot if there is nothing."""
    counts = Counter[int]()
    for (partition, _), wanted in places.items():
        counts[partition] += wanted
    return [lot.value for lot in partitions_in_lots(counts, AT_ONCE)] or [[]]


def _gone(reader: LakeReader, group_id: str, as_of: datetime | None) -> Description:
    """The description of a group that has neither a row in `groups` nor offsets."""
    removal = last_removal(reader, group_id, as_of)
    now = as_of or to_datetime(reader.as_of_ms)
    if removal is None:
        return Description(group_id, None, now, None, [])
    place = removal.offsets_partition, group_id
    last = Description(group_id, removal.offsets_partition, removal.offsets_as_of or now, None, [], removal=removal)
    if removal.members_as_of is not None:
        last.members = GroupFacts(reader, [group_id], removal.members_as_of).members[place]
    if removal.offsets_as_of is not None:
        last.offsets = GroupFacts(reader, [group_id], removal.offsets_as_of).offsets(place)
    return last
