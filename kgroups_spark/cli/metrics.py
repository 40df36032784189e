"""the last audit's figures for Prometheus

Writes OpenMetrics: how fresh the audit is, findings, groups by type and state, expiring offsets, lag, records lost,
dead letters, hanging transactions, quarantine. --output replaces a file in one step, as the textfile collector of
node_exporter needs it; --push sends the same to a push gateway. examples/ has alert rules and a Grafana dashboard.

examples:
  kgroups metrics --lake ./lake
  kgroups metrics --lake ./lake --output /var/lib/node_exporter/textfile/kgroups.prom
  kgroups metrics --lake ./lake --push http://pushgateway:9091 --job kafka-frankfurt"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kgroups_spark.cli.form import ENGINE, LAKE, Option
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import STDOUT, require_place, say, write_file
from kgroups_spark.errors import KgroupsError, how_to_install
from kgroups_spark.sql.reader import LakeReader
from kgroups_spark.words import counted

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

DEFAULT_JOB = "kgroups"

OPTIONS = (
    LAKE,
    (
        Option("--output FILE", "the file, a URI of one, or - for stdout (default)", default=STDOUT),
        Option("--push URL", "the push gateway that gets them instead"),
    ),
    Option("--job NAME", f"the job's name at the push gateway (default: {DEFAULT_JOB})", default=DEFAULT_JOB),
    ENGINE,
)


class Family(NamedTuple):
    """Metrics of one name, all of them gauges. `query`: a row for each, its labels and `value`."""

    name: str
    help: str
    query: str


_FAMILIES = """
kgroups_audit_as_of_timestamp_seconds: Time up to which the last audit judged the log
SELECT epoch_ms(as_of) / 1000 AS value FROM last_audit

kgroups_audit_finished_timestamp_seconds: Time at which the last audit finished
SELECT epoch_ms(finished_at) / 1000 AS value FROM last_audit

kgroups_audit_notes: Notes of the last audit on what it left out or doubts
SELECT coalesce(array_length(notes), 0) AS value FROM last_audit

kgroups_quarantined_records: Records that the last audit put into quarantine
SELECT count(*) AS value FROM quarantine WHERE audit_id = (SELECT audit_id FROM last_audit)

kgroups_findings: Findings of the last audit
SELECT finding, severity, count(*) AS value FROM current_findings GROUP BY finding, severity

kgroups_groups: Groups by type and state
SELECT group_type AS type, state, count(*) AS value FROM groups GROUP BY group_type, state

kgroups_group_members: Members of a group that has any
SELECT group_id AS "group", sum(member_count) AS value FROM groups WHERE member_count > 0 GROUP BY group_id

kgroups_group_offsets_expiry_timestamp_seconds: Time from which the first offset of a
  group expires, if the group stays as it is
SELECT group_id AS "group", min(epoch_ms(expires_at)) / 1000 AS value FROM expiring(NULL, NULL, NULL) GROUP BY group_id

kgroups_group_offsets_expiring: Offsets of a group that expire at some time, if the group stays as it is
SELECT group_id AS "group", count(*) AS value FROM expiring(NULL, NULL, NULL) GROUP BY group_id

kgroups_group_lag: Lag of a group by topic, at the newest audit of a live cluster
SELECT group_id AS "group", topic, sum(lag) AS value FROM lag WHERE lag IS NOT NULL GROUP BY group_id, topic

kgroups_group_records_lost: Records of that lag that the topic has deleted: nobody will read them
SELECT group_id AS "group", topic, sum(records_lost) AS value FROM lag WHERE records_lost > 0 GROUP BY group_id, topic

kgroups_group_dead_letters: Records that a share group gave up, as far as history goes back
SELECT group_id AS "group", sum(records) AS value FROM dead_letters GROUP BY group_id

kgroups_open_transactions: Transactions with offsets that have not ended
SELECT is_hanging AS hanging, count(*) AS value FROM open_transactions GROUP BY is_hanging
"""
FAMILIES = [
    Family(name, text.replace("\n ", ""), query)
    for name, text, query in re.findall(r"(\w+): (.*?)\n(SELECT .*?)\n(?:\n|$)", _FAMILIES, re.DOTALL)
]


def run(arguments: argparse.Namespace) -> int:
    require_place(arguments.output, "kgroups.prom")
    try:
        from prometheus_client import CollectorRegistry, push_to_gateway
        from prometheus_client.openmetrics.exposition import generate_latest
    except ImportError as error:
        raise KgroupsError(f"metrics need prometheus_client: {how_to_install('metrics')}") from error
    reader = open_lake(arguments)
    reader.require_audit()
    found = list(metrics(reader))
    registry = CollectorRegistry()
    registry.register(_Collected(found))
    samples = counted(sum(len(family.samples) for family in found), "sample")
    if arguments.push is None:
        write_file(arguments.output, generate_latest(registry))  # type: ignore[no-untyped-call]
        say(f"{samples} of {len(found)} families ({reader.known_as_of()})")
        return 0
    try:
        push_to_gateway(arguments.push, job=arguments.job, registry=registry)
    except (OSError, ValueError) as error:
        raise KgroupsError(f"the push gateway {arguments.push} did not take the metrics: {error}") from error
    say(f"{samples} pushed to {arguments.push} ({reader.known_as_of()})")
    return 0


def metrics(reader: LakeReader) -> Iterator[Metric]:
    """Each family with its samples, in an order that depends only on them; a family may have none."""
    from prometheus_client.metrics_core import GaugeMetricFamily

    for name, text, query in FAMILIES:
        rows = list(reader.ask(query, {}))
        labels = [column for column in (rows[0] if rows else ()) if column != "value"]
        family = GaugeMetricFamily(name, text, labels=labels)
        for *names, value in sorted([*map(_label, row.values())] for row in rows):
            family.add_metric(names, float(value))
        yield family


def _label(value: Any) -> str:
    """The text of a label or a value; false and true as Prometheus' users write them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Collected:
    """A collector of metrics that there are already."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        yield from self._found
