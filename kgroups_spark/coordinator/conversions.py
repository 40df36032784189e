"""The group object that a record applies to: the existing one, a new one, or one that replaces it.

The rules are those of Kafka GroupMetadataManager.getOrMaybeCreatePersisted{Consumer,Share,Streams}Group, per release:

    no group                 a value creates it; a tombstone is ignored (3.7 to 3.9, and share groups of 4.0: fails)
    a group of its type      used as it is
    a simple classic group   replaced by an empty group of the type, by values and tombstones alike (T31), since offset
                             commits come first. Consumer since 4.0, streams since 4.2.1, share never (T33)
    any other group          fails
"""

from __future__ import annotations

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.consumer_group import ConsumerGroup
from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.share_group import ShareGroup
from kgroups_spark.coordinator.streams_group import StreamsGroup

Modern = ConsumerGroup | ShareGroup | StreamsGroup
Group = ClassicGroup | Modern

GROUP_OF_TYPE: dict[int, type[Modern]] = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), ConsumerGroup),
    **dict.fromkeys((9, 10, 11, 12, 13, 14, 15), ShareGroup),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), StreamsGroup),
}


def persisted_group(
    groups: dict[str, Group], release: Release, record_type: int, group_id: str, *, is_value: bool
) -> Modern | None:
    """The group that a record of types 3 to 23 applies to, added to `groups` if it is new; None: no group, ignored.

    Raises ReplayFailure if the release's load fails.
    """
    group_class = GROUP_OF_TYPE[record_type]
    group = groups.get(group_id)
    if isinstance(group, group_class):
        return group
    creates = is_value and record_type in release.creates_group
    if group is None and not creates:
        if record_type in release.needs_group:
            raise ReplayFailure(f"{group_class.group_type} group {group_id} not found.")
        return None
    if group is None or (group.is_simple and group_class.group_type in release.simple_group_becomes):
        created = group_class(release, group_id)
        groups[group_id] = created
        return created
    raise ReplayFailure(f"Group {group_id} is not a {group_class.group_type} group")
