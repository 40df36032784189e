"""The defaults of a Kafka release's settings, and those that this project relies on.

`settings.json` has every setting of the three coordinators with its default in the newest release that we claim. `used`
names what relies on it. A setting that is new is a difference, too: 4.4's
`group.streams.topology.description.plugin.class` came with a rule of expiry.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_collections import JavaList
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.kafka_watch.differences import Difference
from tests.kafka_watch.release_jars import COORDINATORS, STORAGE, ReleaseJars

EXPECTED = Path(__file__).parent / "settings.json"
# Only these two of a log's settings: when compaction may take tombstones, and how large a record may be.
STORAGE_SETTINGS = frozenset({"log.cleaner.delete.retention.ms", "max.message.bytes"})


def published_settings(release: ReleaseJars) -> dict[str, str]:
    """Each setting and its default, as text (`null`: none), from every ConfigDef in the coordinators' classes."""
    found: dict[str, str] = {}
    with _jvm(release) as jvm:
        for module in COORDINATORS:
            found |= _defaults(jvm, release.jar(module))
        of_logs = _defaults(jvm, release.jar(STORAGE))
    return found | {name: of_logs[name] for name in STORAGE_SETTINGS if name in of_logs}


def expected_settings() -> dict[str, dict[str, str]]:
    """`default` of each setting; `used`, if this project relies on it, names what relies on it."""
    settings: dict[str, dict[str, str]] = json.loads(EXPECTED.read_text())
    return settings


def setting_differences(published: Mapping[str, str], expected: Mapping[str, Mapping[str, str]]) -> list[Difference]:
    """New settings, changed defaults, and settings that are gone though we rely on them."""
    found = []
    for name in sorted(published.keys() | expected.keys()):
        used = expected.get(name, {}).get("used")
        users = f"; used by {used}" if used else ""
        if name not in expected:
            found.append(Difference(name, f"is new, its default {published[name]}: does it change what is kept?"))
        elif name in published and published[name] != expected[name]["default"]:
            found.append(Difference(name, f"default {expected[name]['default']}, now {published[name]}{users}"))
        elif name not in published and used:
            found.append(Difference(name, f"is gone{users}"))
    return found


@contextmanager
def _jvm(release: ReleaseJars) -> Iterator[Any]:
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port, token, process = launch_gateway(
        jarpath=str(py4j),
        classpath=":".join(release.paths),
        javaopts=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-Dslf4j.internal.verbosity=ERROR"],
        die_on_exit=True,  # its input ends with this process
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait()


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
                found |= {key: _text(defaults[key]) for key in defaults}
    return found


def _text(default: object) -> str:
    """As Kafka's documentation has it: `null`, `true`, `uniform,range`."""
    if default is None or isinstance(default, bool):
        return {None: "null", True: "true", False: "false"}[default]
    return ",".join(map(str, default)) if isinstance(default, list | JavaList) else str(default)
