"""The TLS versions to use."""

from __future__ import annotations

from collections.abc import Mapping

from kgroups_spark.client.property import BadClientProperty, listed, one_of

VERSIONS = ("TLSv1.2", "TLSv1.3")
OUTDATED = ("SSL", "SSLv2", "SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")


def spoken(properties: Mapping[str, str], notes: list[str]) -> tuple[str, str]:
    """The oldest and the newest TLS version to use. Appends to `notes`. Raises BadClientProperty."""
    name = "ssl.enabled.protocols"
    asked = listed(properties.get(name, "")) or list(VERSIONS)
    for version in asked:
        one_of(name, version, [*VERSIONS, *OUTDATED])
    enabled = [version for version in VERSIONS if version in asked]
    if not enabled:
        raise BadClientProperty(
            f"{name} has only outdated versions, which are not supported: use {', '.join(VERSIONS)}"
        )
    if len(enabled) < len(set(asked)):
        notes.append(f"{name}: only {', '.join(enabled)} will be used")
    protocol = one_of("ssl.protocol", properties.get("ssl.protocol", "TLSv1.3"), ["TLS", *VERSIONS, *OUTDATED])
    if protocol in OUTDATED:
        raise BadClientProperty(f"ssl.protocol {protocol} is outdated and not supported: leave it out")
    # With ssl.protocol=TLSv1.2 Java does not speak 1.3, whatever is enabled.
    if protocol == "TLSv1.2" and "TLSv1.2" not in enabled:
        raise BadClientProperty("ssl.protocol TLSv1.2 and ssl.enabled.protocols TLSv1.3 have no version in common")
    return enabled[0], "TLSv1.2" if protocol == "TLSv1.2" else enabled[-1]
