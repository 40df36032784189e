"""Values that stand elsewhere: `${env:NAME}`, `${file:/path:key}`, `${dir:/path:file}`, as Kafka's clients know them.

`config.providers` names the providers, `config.providers.<name>.class` what each is. Of Kafka's own three classes
nothing is run here, they are done in Python: org.apache.kafka.common.config.ConfigTransformer (4.3) has the pattern.
Kafka leaves a reference that it cannot resolve as it is; here it is an error, as it was hardly meant as a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from kgroups_spark.errors import UsageError
from kgroups_spark.sources.client_property import BadClientProperty, listed
from kgroups_spark.sources.properties_file import parse_properties, read_bytes

PROVIDERS = "config.providers"
REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")

Lookup = Callable[[str, str], str]


def resolve(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with what references stand for, without those that set the providers up.

    Raises BadClientProperty for a provider or a reference that cannot be had.
    """
    providers = _providers(properties)
    return {
        name: _resolved(name, value, providers)
        for name, value in properties.items()
        if name != PROVIDERS and not name.startswith(f"{PROVIDERS}.")
    }


def _resolved(name: str, value: str, providers: Mapping[str, Lookup]) -> str:
    def one(match: re.Match[str]) -> str:
        provider, path, key = match.groups()
        if provider not in providers:
            # What stands there may be a part of a password: it is not shown.
            known = f"{PROVIDERS} names {', '.join(providers)}" if providers else f"there is no {PROVIDERS}"
            raise BadClientProperty(
                f"{name} refers to another place (${{...:...}}) by a name that is not declared: {known}; "
                f"for the environment write {PROVIDERS}=env and {PROVIDERS}.env.class="
                "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
            )
        try:
            return providers[provider](path or "", key)
        except UsageError as err:
            raise BadClientProperty(f"{name} refers to a value that cannot be had: {err}") from err

    return REFERENCE.sub(one, value)


def _providers(properties: Mapping[str, str]) -> dict[str, Lookup]:
    providers = {}
    for alias in listed(properties.get(PROVIDERS, "")):
        class_name = properties.get(f"{PROVIDERS}.{alias}.class", "").strip()
        if class_name not in CLASSES:
            raise BadClientProperty(
                f"{PROVIDERS}.{alias}.class is none of {', '.join(CLASSES)}: other providers are Java and cannot be "
                "run here; write the value itself, or put it into the environment"
            )
        if any(name.startswith(f"{PROVIDERS}.{alias}.param.") for name in properties):
            raise BadClientProperty(f"{PROVIDERS}.{alias}.param.*: parameters of providers are not supported here")
        providers[alias] = CLASSES[class_name]
    return providers


def _from_environment(path: str, key: str) -> str:
    if path:
        raise UsageError("${env:...} has a name only, no path")
    if key not in os.environ:
        raise UsageError(f"there is no environment variable {key}")
    return os.environ[key]


def _from_properties_file(path: str, key: str) -> str:
    properties = parse_properties(_text(path))
    if key not in properties:
        raise UsageError(f"{path} has no property {key}")
    return properties[key]


def _from_folder(path: str, key: str) -> str:
    return _text(os.path.join(path, key))  # noqa: PTH118  # a path of the user's, as it stands


def _text(path: str) -> str:
    try:
        return read_bytes(path, "the file").decode()
    except UnicodeDecodeError as err:
        raise UsageError(f"the file {path} is no text in UTF-8") from err


PACKAGE = "org.apache.kafka.common.config.provider"
CLASSES: Mapping[str, Lookup] = {
    f"{PACKAGE}.EnvVarConfigProvider": _from_environment,
    f"{PACKAGE}.FileConfigProvider": _from_properties_file,
    f"{PACKAGE}.DirectoryConfigProvider": _from_folder,
}
