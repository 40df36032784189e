"""Figures for Prometheus, read back by its own parser; the alert rules and the dashboard ask for what there is."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import promql_parser
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kgroups_spark.cli.main import main
from kgroups_spark.cli.metrics import FAMILIES
from kgroups_spark.words import to_epoch_ms
from tests.cli.written_lake import write_lake
from tests.nights.story import story
from tests.pages import ROOT

NAMES = {family.name for family in FAMILIES}


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics") / "lake"
    write_lake(folder, story().tables())
    return folder


def samples(text):
    """Labels and values by family."""
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def test_figures_are_those_of_the_last_audit(lake, capsys):
    assert main(["metrics", "--lake", str(lake)]) == 0
    found = samples(capsys.readouterr().out)
    assert set(found) == NAMES
    assert ({"type": "share", "state": "Stable"}, 1.0) in found["kgroups_groups"]
    assert sum(value for _, value in found["kgroups_groups"]) == len(story().rows("groups"))
    assert ({"finding": "hanging_transaction", "severity": "error"}, 1.0) in found["kgroups_findings"]
    assert ({"hanging": "true"}, 1.0) in found["kgroups_open_transactions"]
    expiring = story().rows("offset_expiry")
    assert found["kgroups_audit_as_of_timestamp_seconds"] == [({}, to_epoch_ms(expiring[0]["as_of"]) / 1000)]
    first = {labels["group"]: value for labels, value in found["kgroups_group_offsets_expiry_timestamp_seconds"]}
    expiring = [row for row in expiring if row["expires_at"] is not None]
    assert first == {
        name: min(to_epoch_ms(row["expires_at"]) for row in expiring if row["group_id"] == name) / 1000
        for name in {row["group_id"] for row in expiring}
    }


def test_a_file_is_replaced_and_a_folder_refused(lake, tmp_path, capsys):
    output = tmp_path / "kgroups.prom"
    output.write_text("old")
    assert main(["metrics", "--lake", str(lake), "--output", str(output)]) == 0
    assert set(samples(output.read_text())) == NAMES and [*tmp_path.iterdir()] == [output]
    assert main(["metrics", "--lake", str(lake), "--output", str(tmp_path)]) == 2
    assert main(["metrics", "--lake", str(tmp_path / "none")]) == 2
    assert "no lake at" in capsys.readouterr().err


@pytest.fixture
def gateway():
    """The address of a push gateway, and what it got."""
    got: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self):
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()


def test_a_push_gateway_gets_the_same(lake, gateway, capsys):
    address, got = gateway
    assert main(["metrics", "--lake", str(lake), "--push", address, "--job", "frankfurt"]) == 0
    ((path, body),) = got
    assert path == "/metrics/job/frankfurt" and b"kgroups_findings{" in body
    assert main(["metrics", "--lake", str(lake), "--push", "http://127.0.0.1:1"]) == 1
    assert "the push gateway http://127.0.0.1:1 did not take the metrics" in capsys.readouterr().err


def selectors(expression):
    """The names of metrics in an expression. Raises ValueError if Prometheus would not take it."""
    promql_parser.parse(expression)
    return set(re.findall(r"kgroups_\w+", expression))


def test_the_alert_rules_ask_for_figures_that_there_are():
    rules = yaml.safe_load((ROOT / "examples/prometheus-alerts.yaml").read_text())["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 5
    for rule in rules:
        assert selectors(rule["expr"]) and selectors(rule["expr"]) <= NAMES, rule["alert"]
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= {"finding", "group", "topic"}


def test_the_dashboard_asks_for_figures_that_there_are():
    panels = json.loads((ROOT / "examples/grafana-dashboard.json").read_text())["panels"]
    asked = {name for panel in panels for target in panel["targets"] for name in selectors(target["expr"])}
    assert asked <= NAMES and len(asked) > 6
    with pytest.raises(ValueError, match="parenthesis"):
        selectors("sum by (")


def test_an_old_audit_is_an_alert(lake, capsys):
    assert main(["audits", "--lake", str(lake), "--fail-if-older-than", "36500d"]) == 0
    assert main(["audits", "--lake", str(lake), "--fail-if-older-than", "1ms"]) == 4
    assert "ago, longer than 1ms" in capsys.readouterr().err
