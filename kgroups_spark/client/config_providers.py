"""References to values kept elsewhere: `${env:NAME}`, `${file:/path:key}`, `${dir:/path:file}`, as in Kafka's clients.

`config.providers` names the providers, `config.providers.<name>.class` is the class of each. Parameters that restrict
what a provider may read are refused. Kafka's own three classes are implemented here in Python; no Java runs. The
pattern is that of org.apache.kafka.common.config.ConfigTransformer (4.3).

Kafka leaves a reference that it cannot resolve as it is. Here it is an error, because it is hardly a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kgroups_spark.client.properties_file import read_bytes
from kgroups_spark.client.property import BadClientProperty, listed
from kgroups_spark.errors import UsageError
from kgroups_spark.storage.properties import parse_properties

PROVIDERS = "config.providers"
REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")

# A provider with its parameters: path and key -> value.
Lookup = Callable[[str, str], str]


@dataclass(frozen=True, repr=False)
class Resolved:
    """The properties with their references resolved, without those that configure the providers. `found` has the
    providers' values: a value kept elsewhere does not belong in messages."""

    properties: dict[str, str]
    found: tuple[str, ...]


def resolve(properties: Mapping[str, str]) -> Resolved:
    """The properties with their references resolved. Raises BadClientProperty for a provider or a reference that cannot
    be resolved."""
    providers, found = _providers(properties), list[str]()
    resolved = {
        name: _resolved(name, value, providers, found)
        for name, value in properties.items()
        if name != PROVIDERS and not name.startswith(f"{PROVIDERS}.")
    }
    return Resolved(resolved, tuple(found))


def _resolved(name: str, value: str, providers: Mapping[str, Lookup], found: list[str]) -> str:
    def one(match: re.Match[str]) -> str:
        provider, path, key = match.groups()
        if provider not in providers:
            # The text may be part of a password: do not show it.
            known = f"{PROVIDERS} names {', '.join(providers)}" if providers else f"there is no {PROVIDERS}"
            raise BadClientProperty(
                f"{name} has a reference (${{...:...}}) to an undeclared provider: {known}; for the environment write "
                f"{PROVIDERS}=env and "
                f"{PROVIDERS}.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider"
            )
        try:
            found.append(providers[provider](path or "", key))
            return found[-1]
        except UsageError as err:
            raise BadClientProperty(f"the reference in {name} cannot be resolved: {err}") from err

    return REFERENCE.sub(one, value)


def _providers(properties: Mapping[str, str]) -> dict[str, Lookup]:
    providers: dict[str, Lookup] = {}
    for alias in listed(properties.get(PROVIDERS, "")):
        class_name = properties.get(f"{PROVIDERS}.{alias}.class", "").strip()
        if class_name not in CLASSES:
            raise BadClientProperty(
                f"{PROVIDERS}.{alias}.class must be one of {', '.join(CLASSES)}: other providers are Java and cannot "
                "run here; give the value itself, or an environment variable"
            )
        prefix = f"{PROVIDERS}.{alias}.param."
        if any(name.startswith(prefix) for name in properties):
            raise BadClientProperty(f"{prefix}* would restrict what may be read, and is not supported: leave it out")
        providers[alias] = CLASSES[class_name]
    return providers


def _environment(path: str, key: str) -> str:
    if path:
        raise UsageError("${env:...} has a name only, no path")
    if key not in os.environ:
        raise UsageError(f"no environment variable {key}")
    return os.environ[key]


def _properties_file(path: str, key: str) -> str:
    properties = parse_properties(_text(path))
    if key not in properties:
        raise UsageError(f"{path} has no property {key}")
    return properties[key]


def _folder(path: str, key: str) -> str:
    """The content of a file directly in the folder."""
    if "/" in key or key in ("", ".", ".."):
        raise UsageError(f"{key!r} is not the name of a file in {path}")
    return _text(os.path.join(path, key))  # noqa: PTH118  # a path of the user's, as it is


def _text(path: str) -> str:
    try:
        return read_bytes(path, "the file").decode()
    except UnicodeDecodeError as err:
        raise UsageError(f"the file {path} is not UTF-8 text") from err


PACKAGE = "org.apache.kafka.common.config.provider"
CLASSES: Mapping[str, Lookup] = {
    f"{PACKAGE}.EnvVarConfigProvider": _environment,
    f"{PACKAGE}.FileConfigProvider": _properties_file,
    f"{PACKAGE}.DirectoryConfigProvider": _folder,
}
