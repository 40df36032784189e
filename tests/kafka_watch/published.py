"""Kafka's message files as they are in its jars, read into the form of our own definitions."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace

from kgroups_spark.messages.schema import Definition, parse_definition
from tests.kafka_watch.release_jars import CLIENTS, COORDINATORS, ReleaseJars

FOLDER = "common/message/"
# Stored inside the metadata of classic groups.
EMBEDDED = ("ConsumerProtocolAssignment", "ConsumerProtocolSubscription")


def published_definitions(release: ReleaseJars) -> list[Definition]:
    """Keys and values of the three logs, and the embedded messages, whose topic is None."""
    found = [
        replace(definition, topic=topic)
        for module, topic in COORDINATORS.items()
        for definition in _definitions(release.jar(module))
    ]
    return found + [each for each in _definitions(release.jar(CLIENTS), EMBEDDED) if each.name in EMBEDDED]


def _definitions(jar: str, only: tuple[str, ...] = ()) -> Iterator[Definition]:
    with zipfile.ZipFile(jar) as archive:
        for entry in sorted(archive.namelist()):
            name = entry.removeprefix(FOLDER).removesuffix(".json")
            if entry == f"{FOLDER}{name}.json" and (not only or name in only):
                yield parse_definition(without_comments(archive.read(entry).decode()))


def without_comments(text: str) -> str:
    """Kafka's files have comments in lines of their own."""
    return re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
