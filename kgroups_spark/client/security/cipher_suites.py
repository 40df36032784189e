"""The TLS versions and cipher suites to use: Java's names, as in properties, and OpenSSL's."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from kgroups_spark.client.property import BadClientProperty, listed, one_of, shown
from kgroups_spark.nearest import did_you_mean

VERSIONS = ("TLSv1.2", "TLSv1.3")
OUTDATED = ("SSL", "SSLv2", "SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
# IANA's and Java's names of key exchanges and ciphers up to TLS 1.2, and OpenSSL's. OpenSSL 3: ciphers(1).
KEY_EXCHANGES = {"ECDHE_RSA": "ECDHE-RSA-", "ECDHE_ECDSA": "ECDHE-ECDSA-", "DHE_RSA": "DHE-RSA-", "RSA": ""}
CIPHERS = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
}
TLS_1_3_SUITES = ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256")


def spoken(properties: Mapping[str, str], notes: list[str]) -> tuple[str, str, str | None]:
    """The oldest and the newest TLS version to use, and OpenSSL's names of the ciphers up to 1.2; None: its own choice.

    Appends to `notes`. Raises BadClientProperty.
    """
    oldest, newest = _versions(properties, notes)
    return _with_ciphers(properties, oldest, newest, notes)


def _versions(properties: Mapping[str, str], notes: list[str]) -> tuple[str, str]:
    """The oldest and the newest TLS version to use."""
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


def _with_ciphers(
    properties: Mapping[str, str], oldest: str, newest: str, notes: list[str]
) -> tuple[str, str, str | None]:
    name = "ssl.cipher.suites"
    asked = listed(properties.get(name, ""))
    if not asked:
        return oldest, newest, None
    newer = [suite for suite in asked if suite in TLS_1_3_SUITES]
    older = {suite: _openssl_name(suite) for suite in asked if suite not in newer}
    usable = [known for known in older.values() if known and _is_available(known)]
    if left_out := [suite for suite, known in older.items() if not known or known not in usable]:
        known_suites = [f"TLS_{exchange}_WITH_{cipher}" for exchange in KEY_EXCHANGES for cipher in CIPHERS]
        nearest = did_you_mean(left_out[0], [*TLS_1_3_SUITES, *known_suites])
        names = ", ".join(map(shown, left_out))
        if not usable and not newer:
            raise BadClientProperty(f"{name} has none that can be used here: {names}{nearest}")
        notes.append(f"{name}: {names} cannot be used here and will be left out")
    if newer and len(newer) < len(TLS_1_3_SUITES):
        notes.append(f"{name}: Python chooses among all suites of TLS 1.3, not only {', '.join(newer)}")
    # Python cannot set suites of TLS 1.3. So 1.3 is not used if the list has none of its suites, nor 1.2 without its
    # own.
    oldest, newest = (oldest if usable else "TLSv1.3"), (newest if newer else "TLSv1.2")
    if oldest > newest:  # as texts
        raise BadClientProperty(f"{name} has no suite of a version that ssl.enabled.protocols and ssl.protocol leave")
    return oldest, newest, ":".join(usable) or None


def _openssl_name(suite: str) -> str | None:
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if exchange in KEY_EXCHANGES and cipher in CIPHERS:
        return KEY_EXCHANGES[exchange] + CIPHERS[cipher]
    return None


def _is_available(cipher: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(cipher)
    except ssl.SSLError:
        return False
    return True
