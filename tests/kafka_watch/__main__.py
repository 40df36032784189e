"""`make kafka-watch`: what a Kafka release writes or takes as a default that this project does not know.

Both sides are described as lines of text, and Kafka's lines that we lack are printed. `settings.json` has every setting
of the three coordinators with its default in the newest release that we claim; `used` names what relies on it. A new
setting is a difference, too: 4.4's `group.streams.topology.description.plugin.class` came with a rule of expiry.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kgroups_spark.coordinator.releases import NEWEST as NEWEST_CLAIMED
from kgroups_spark.messages.schema import Definition, Field, all_definitions, parse_definition
from kgroups_spark.spark.session import ivy_folder
from tests.broker.brokers import kafka_jars
from tests.broker.java_clients import JavaClients
from tests.maven import asked_for, download

NEWEST = "latest.release"
# The log that each coordinator's message files (common/message in its jar) describe.
COORDINATORS = {
    "kafka-group-coordinator": "__consumer_offsets",
    "kafka-share-coordinator": "__share_group_state",
    "kafka-transaction-coordinator": "__transaction_state",
}
# Stored inside the metadata of classic groups.
EMBEDDED = ("ConsumerProtocolAssignment", "ConsumerProtocolSubscription")
# Only these two of a log's settings: when compaction may take tombstones, and how large a record may be.
STORAGE_SETTINGS = ("log.cleaner.delete.retention.ms", "max.message.bytes")
KNOWN_SETTINGS: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "settings.json").read_text())


def definition_lines(definitions: Iterable[Definition]) -> Iterator[str]:
    """The number of each record type, and by version the form of a record: its fields with their order, types,
    nullability, tags and defaults. Early-access layouts, which only we have, are left out."""
    for each in definitions:
        if each.api_key is not None and not each.layout:
            yield f"{each.name} is of record type {each.api_key} in {each.topic}"
        for version in each.versions if not each.layout else ():
            form = "flexible" if version in each.flexible else "not flexible"
            yield from _field_lines(f"{each.name}, version {version}, {form}", each.fields, version)


def _field_lines(place: str, fields: tuple[Field, ...], version: int) -> Iterator[str]:
    """A line for the names in their order, so that one that only we have shows. A record without a tag that only we
    know reads the same."""
    there = [field for field in fields if version in field.versions]
    yield f"{place} has {', '.join(field.name for field in there if version not in field.tagged)}"
    for field in there:
        yield f"{place}: {field.name} is {_form(field, version)}"
        yield from _field_lines(f"{place}: {field.name}", field.fields, version) if field.fields else ()


def _form(field: Field, version: int) -> str:
    """If a record leaves out an array, ours is null, and that of Kafka's classes is empty because their files say null
    without quotes (T59): `assignmentEpochs`, `lastAssignmentConfigs`. The state machine treats both alike, and rows in
    lakes say null, so this is no difference."""
    words = ["array of"] if field.is_array else []
    words += ["nullable"] if version in field.nullable else []
    words += [f"tag {field.tag}"] if version in field.tagged else []
    words.append("struct" if field.fields else field.element)
    if field.default if field.is_array else not field.fields or field.default is None:
        words.append(f"= {field.default!r}")
    return " ".join(words)


def setting_differences(published: Mapping[str, str]) -> list[str]:
    """New settings, changed defaults, and settings that are gone though we rely on them."""
    used = {name for name, known in KNOWN_SETTINGS.items() if "used" in known}
    return [
        f"{name} = {published.get(name)} (settings.json: {KNOWN_SETTINGS.get(name)})"
        for name in sorted(published.keys() | used)
        if published.get(name) != KNOWN_SETTINGS.get(name, {}).get("default")
    ]


def newest_release() -> str:
    """The version of the newest release on Maven."""
    module = "kafka-share-coordinator"  # a small one
    ivy_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ivy_folder()) as folder:
        download(Path(folder), asked_for([f"org.apache.kafka:{module}:{NEWEST}"], "master"))
        (jar,) = Path(folder).glob("*.jar")
    return jar.stem.removeprefix(f"{module}-")


def published_definitions(release: str) -> list[Definition]:
    """Keys and values of the three logs, and the embedded messages, whose topic is None."""
    found = [
        each._replace(topic=topic) for module, topic in COORDINATORS.items() for each in _definitions(release, module)
    ]
    return found + list(_definitions(release, "kafka-clients", EMBEDDED))


def _definitions(release: str, module: str, only: tuple[str, ...] = ()) -> Iterator[Definition]:
    with zipfile.ZipFile(_jar(release, module)) as archive:
        for entry in sorted(archive.namelist()):
            if re.fullmatch(rf"common/message/({'|'.join(only) or '.*'})\.json", entry):
                # Kafka's files have comments in lines of their own.
                yield parse_definition(re.sub(r"^\s*//.*$", "", archive.read(entry).decode(), flags=re.MULTILINE))


def _jar(release: str, module: str) -> str:
    (path,) = (each for each in kafka_jars(release) if Path(each).name == f"{module}-{release}.jar")
    return path


def published_settings(release: str) -> dict[str, str]:
    """Each setting and its default, as text (`null`: none), from every ConfigDef in the coordinators' classes."""
    with JavaClients(None, release) as java:
        found = {k: v for module in COORDINATORS for k, v in _defaults(java.jvm, _jar(release, module)).items()}
        of_logs = _defaults(java.jvm, _jar(release, "kafka-storage"))
    return found | {name: of_logs[name] for name in STORAGE_SETTINGS if name in of_logs}


def _defaults(jvm: Any, jar: str) -> dict[str, str]:
    """Defaults of the ConfigDefs in static fields of a jar's classes whose names end in Config or Configs."""
    with zipfile.ZipFile(jar) as archive:
        classes = [name for name in archive.namelist() if re.search(r"/\w+Configs?\.class$", name)]
    lang, found = jvm.java.lang, {}
    definition = lang.Class.forName("org.apache.kafka.common.config.ConfigDef")
    for name in classes:
        for field in lang.Class.forName(name.removesuffix(".class").replace("/", ".")).getDeclaredFields():
            is_static = lang.reflect.Modifier.isStatic(field.getModifiers())
            if is_static and definition.isAssignableFrom(field.getType()):
                field.setAccessible(True)
                defaults = field.get(None).defaultValues()
                found |= {key: jvm.java.util.Objects.toString(defaults[key]) for key in defaults}
    return found


def main(arguments: list[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        prog="make kafka-watch",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compares a Kafka release with what kgroups-spark knows: record types,\n"
        "versions, fields, tags and defaults of the three logs, and the defaults of the\n"
        "coordinators' settings. The jars (40 MB) come from Maven once.",
        epilog='With make: KAFKA_WATCH_ARGS="--release 4.4.0". Exit code 0: no difference, 1:\n'
        "differences, 2: the release could not be read.",
    )
    parser.add_argument(
        "--release", default=NEWEST, metavar="VERSION", help="as on Maven, such as 4.4.0 (default: the newest there)"
    )
    release = parser.parse_args(arguments).release
    try:
        release = newest_release() if release == NEWEST else release
        theirs, ours = definition_lines(published_definitions(release)), set(definition_lines(all_definitions()))
        differences = [line for line in theirs if line not in ours] + setting_differences(published_settings(release))
    except RuntimeError as error:
        sys.stderr.write(f"kafka-watch: Kafka {release} cannot be read from Maven: {error}\n")
        return 2
    title = f"Kafka {release} beside what kgroups-spark knows (up to Kafka {NEWEST_CLAIMED})"
    sys.stdout.write("\n".join([title, *differences, f"differences: {len(differences)}", ""]))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
