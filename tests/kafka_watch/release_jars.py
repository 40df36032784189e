"""The few jars of a Kafka release that hold its message files and the defaults of its coordinators (15 MB)."""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kgroups_spark.messages.schema import Definition, parse_definition
from kgroups_spark.spark.session import ivy_folder
from tests.maven import asked_for, download, downloaded_jars

# The log that each coordinator's message files (common/message in its jar) describe.
COORDINATORS = {
    "kafka-group-coordinator": "__consumer_offsets",
    "kafka-share-coordinator": "__share_group_state",
    "kafka-transaction-coordinator": "__transaction_state",
}
# The protocol blobs in group metadata, and ConfigDef.
CLIENTS = "kafka-clients"
# The topic's own settings: log.cleaner.delete.retention.ms, max.message.bytes.
STORAGE = "kafka-storage"
# The classes with the defaults refer to classes of these jars.
REFERRED = ("kafka-server-common", "kafka-coordinator-common", "kafka-group-coordinator-api", "kafka-storage-api")
LOGGER_API = "org.slf4j:slf4j-api:1.7.36"
NEWEST = "latest.release"


@dataclass(frozen=True)
class ReleaseJars:
    version: str
    paths: tuple[str, ...]

    def jar(self, module: str) -> str:
        """Where the jar of one of Kafka's modules is."""
        (path,) = (each for each in self.paths if Path(each).name == f"{module}-{self.version}.jar")
        return path


def release_jars(version: str) -> ReleaseJars:
    """The jars of `version`, or of the newest release that Maven has (`latest.release`). Raises RuntimeError with Ivy's
    message, as for a version that is not published."""
    if version == NEWEST:
        version = _newest_version()
    return ReleaseJars(version, tuple(downloaded_jars(f"kafka-watch-{version}", _asked(version))))


def _newest_version() -> str:
    """Ivy asks Maven each time. One small module is downloaded, its name says the version."""
    module = "kafka-share-coordinator"
    ivy_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ivy_folder()) as folder:
        download(Path(folder), asked_for([f"org.apache.kafka:{module}:{NEWEST}"], "master"))
        (jar,) = Path(folder).glob("*.jar")
    return jar.stem.removeprefix(f"{module}-")


def _asked(version: str) -> str:
    modules = (*COORDINATORS, CLIENTS, STORAGE, *REFERRED)
    kafka = [f"org.apache.kafka:{module}:{version}" for module in modules]
    return asked_for([*kafka, LOGGER_API], "master")


# Kafka's message files as they are in its jars, read into the form of our own definitions.
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
