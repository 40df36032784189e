"""Kafka's own jars from Maven Central, in the project's cache: a broker, its tools and the Java clients."""

from __future__ import annotations

from collections.abc import Mapping

from tests.maven import asked_for, downloaded_jars

# kafka-tools has the dump tools of 4.x, kafka-streams the streams client; both are asked for what they bring.
# `exactly_once` is known to the streams clients up to 3.9.
MODULES: Mapping[str, tuple[str, ...]] = {
    "4.3.1": ("org.apache.kafka:kafka_2.13", "org.apache.kafka:kafka-tools", "org.apache.kafka:kafka-streams"),
    "4.4.0": ("org.apache.kafka:kafka_2.13",),
    "3.9.2": ("org.apache.kafka:kafka_2.13", "org.apache.kafka:kafka-streams"),
}
# Kafka's own choice for its log, log4j, is not among what its modules ask for.
LOGGER = "org.slf4j:slf4j-simple:1.7.36"
# Dependencies of these modules that neither brokers in KRaft mode nor our clients load: Connect and its web server,
# RocksDB (70 MB), the dependencies of ZooKeeper. Names are regular expressions, as Ivy has them. A release has 130 MB
# with them, 42 without.
NOT_NEEDED = (
    "org[.]apache[.]kafka:connect-.*",
    "org[.]rocksdb:.*",
    "org[.]eclipse[.]jetty.*:.*",
    "org[.]glassfish.*:.*",
    "(jakarta|javax|com[.]sun|io[.]swagger|io[.]netty|ch[.]qos).*:.*",
    "com[.]fasterxml[.]jackson[.](module|jakarta).*:.*",
    "(io[.]github[.]classgraph|org[.]apache[.]maven|org[.]codehaus.*|org[.]javassist|aopalliance|org[.]jspecify):.*",
    "(org[.]apache[.]commons|commons-(beanutils|collections|digester)):.*",
    "org[.]scala-lang:scala-reflect",
)


def kafka_jars(release: str) -> list[str]:
    """The class path of a release, downloaded when it is not there. Raises RuntimeError with what Ivy said."""
    modules = [f"{module}:{release}" for module in MODULES[release]]
    return downloaded_jars(f"kafka-{release}", asked_for([*modules, LOGGER], "default", NOT_NEEDED))
