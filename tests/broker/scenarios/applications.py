"""Share groups, and applications of Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterator

from tests.broker.brokers import until
from tests.broker.lab import Expected, Lab, Scenario


def share_groups(lab: Lab) -> Iterator[Expected]:
    """Share groups are joined, read by, left, given start offsets by Admin, and deleted."""
    slots = lab.topic("shared", 2, records=10)
    for group in ("share", "share-left"):
        lab.group_setting(group, "share.auto.offset.reset", "earliest")
    first, second, gone = (
        lab.share("share", ["shared"]),
        lab.share("share", ["shared"]),
        lab.share("share-left", ["shared"]),
    )
    until("all is read", lambda: first.read + second.read >= 20 and gone.read >= 20)
    gone.close()
    lab.alter_share("share-altered", {slots[0]: 3, slots[1]: 4})
    yield Expected(
        lab.await_group("share", "share", "Stable", 2)
        | lab.await_group("share-left", "share", "Empty", 0)
        | lab.await_group("share-altered", "share", "Empty", 0)
    )
    second.close()
    lab.alter_share("share-left", {slots[1]: 1})
    lab.admin.deleteShareGroupOffsets("share-altered", {"shared"}).all().get()
    yield Expected(lab.await_group("share", "share", "Stable", 1) | lab.await_group("share-left", "share", "Empty", 0))
    lab.admin.deleteShareGroups(["share-left"]).all().get()
    yield Expected({"share": ("share", "Stable", 1)}, gone=("share-left",))


def streams_application(protocol: str) -> Scenario:
    """An application of Kafka Streams with a repartition topic runs, stops, and its group is deleted."""

    def play(lab: Lab) -> Iterator[Expected]:
        group, topic = f"streams-{protocol}", f"streams.{protocol}"
        slots = lab.topic(topic, 2, records=10)
        application = lab.clients.streams(group, topic, protocol, lab.brokers.folder / group)
        internal = [(f"{group}-by-key-repartition", number) for number in range(2)]
        lab.slots.update(internal)
        lab.await_committed(group, slots + internal)
        yield Expected(lab.await_group(group, protocol, "Stable", 1))
        lab.clients.stop(application)
        yield Expected(lab.await_group(group, protocol, "Empty", 0))
        if protocol == "streams":
            lab.admin.deleteStreamsGroups([group]).all().get()
        else:
            lab.delete_group(group)
        yield Expected(gone=(group,))

    return play
