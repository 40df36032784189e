"""References to values kept elsewhere: `${env:NAME}`, `${file:/path:key}`, `${dir:/path:file}`, as in Kafka's clients.

`config.providers` names the providers, `config.providers.<name>.class` is the class of each, and
`config.providers.<name>.param.*` restricts what it may read. Kafka's own three classes are implemented here in Python;
no Java runs. The pattern is that of org.apache.kafka.common.config.ConfigTransformer (4.3).

Kafka leaves a reference that it cannot resolve as it is. Here it is an error, because it is hardly a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kgroups_spark.client.properties_file import parse_properties, read_bytes
from kgroups_spark.client.property import BadClientProperty, listed
from kgroups_spark.errors import UsageError

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
        lookup, parameter = CLASSES[class_name]
        prefix = f"{PROVIDERS}.{alias}.param."
        given = {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}
        if unknown := sorted(given.keys() - {parameter}):
            raise BadClientProperty(f"{prefix}{unknown[0]} is not a parameter of {class_name}; it has {parameter}")
        providers[alias] = lookup(f"{prefix}{parameter}", given.get(parameter, ""))
    return providers


def _environment(name: str, allowed: str) -> Lookup:
    """The provider of environment variables. `allowlist.pattern`: a regular expression that the whole name must match;
    empty: every name matches."""
    try:
        pattern = re.compile(allowed or ".*", re.DOTALL)
    except re.error as err:
        raise BadClientProperty(f"{name} is not a regular expression: {err}") from err

    def value_of(path: str, key: str) -> str:
        if path:
            raise UsageError("${env:...} has a name only, no path")
        if not pattern.fullmatch(key):
            raise UsageError(f"{name} does not allow the environment variable {key}")
        if key not in os.environ:
            raise UsageError(f"no environment variable {key}")
        return os.environ[key]

    return value_of


def _properties_file(name: str, allowed: str) -> Lookup:
    """The provider of values in properties files. `allowed.paths`: see _allowed."""
    is_allowed = _allowed(name, allowed)

    def value_of(path: str, key: str) -> str:
        properties = parse_properties(_text(is_allowed(path)))
        if key not in properties:
            raise UsageError(f"{path} has no property {key}")
        return properties[key]

    return value_of


def _folder(name: str, allowed: str) -> Lookup:
    """The provider of file contents. `allowed.paths`: see _allowed. Keys are names of files directly in the folder."""
    is_allowed = _allowed(name, allowed)

    def value_of(path: str, key: str) -> str:
        if "/" in key or key in ("", ".", ".."):
            raise UsageError(f"{key!r} is not the name of a file in {path}")
        return _text(os.path.join(is_allowed(path), key))  # noqa: PTH118  # a path of the user's, as it is

    return value_of


def _allowed(name: str, allowed: str) -> Callable[[str], str]:
    """A function that returns a path if it is at or below one of the `allowed` paths (separated by commas; empty: all
    paths), and raises UsageError if not. Links are not followed for that (AllowedPaths.java 4.3)."""
    above = [os.path.normpath(path) for path in allowed.split(",") if allowed]
    for path in above:
        if not os.path.isabs(path) or not os.path.exists(path):  # noqa: PTH117, PTH110
            raise BadClientProperty(f"{name}: {path} is not the absolute path of an existing file or folder")

    def checked(path: str) -> str:
        wanted = os.path.normpath(path)
        if not above:
            return path
        if not any(wanted == each or wanted.startswith(f"{each.rstrip('/')}/") for each in above):
            raise UsageError(f"{path} is outside the paths that {name} allows")
        return wanted

    return checked


def _text(path: str) -> str:
    try:
        return read_bytes(path, "the file").decode()
    except UnicodeDecodeError as err:
        raise UsageError(f"the file {path} is not UTF-8 text") from err


PACKAGE = "org.apache.kafka.common.config.provider"
# How each class makes a lookup (from the parameter's full name and its value), and its only parameter.
CLASSES: Mapping[str, tuple[Callable[[str, str], Lookup], str]] = {
    f"{PACKAGE}.EnvVarConfigProvider": (_environment, "allowlist.pattern"),
    f"{PACKAGE}.FileConfigProvider": (_properties_file, "allowed.paths"),
    f"{PACKAGE}.DirectoryConfigProvider": (_folder, "allowed.paths"),
}
