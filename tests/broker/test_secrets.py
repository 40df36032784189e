"""Passwords and keys of a cluster's client are in nothing that audits leave, say or write down."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
import trustme

from kgroups_spark.lake.lake import Lake
from tests.broker.brokers import Brokers, Security
from tests.broker.live_audits import fill
from tests.nights.lakes import rows
from tests.sources.security.handshakes import chain, private_key

pytestmark = pytest.mark.in_turn("secrets")

REPOSITORY = Path(__file__).parents[2]
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
# With what has to be escaped here and there.
PASSWORD = "auditor/s3cret+%25&more"
# Every Python process of the program logs into a file of its own.
SITECUSTOMIZE = """
import logging, os
logging.basicConfig(level=logging.DEBUG, filename={folder!r} + f"/python-{{os.getpid()}}.log")
"""


@pytest.fixture(scope="module")
def certificate():
    """With a key that must stay secret."""
    return trustme.CA().issue_cert("auditor@example.org")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    security = Security(listeners=("SASL_SSL",), users={"auditor": PASSWORD})
    with Brokers("4.3.1", tmp_path_factory.mktemp("secured") / "brokers", security=security) as brokers:
        fill(brokers.address)
        yield brokers


@pytest.fixture(scope="module")
def folder(tmp_path_factory, local, certificate, brokers):
    """The files that the talkative audit has left, with its output as `stdout` and `stderr`."""
    folder = tmp_path_factory.mktemp("talkative")
    properties = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(brokers.certificates.authority),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": one_line(private_key(certificate)),
        "ssl.keystore.certificate.chain": one_line(chain(certificate)),
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="auditor" password="{PASSWORD}";',
    }
    (folder / "client.properties").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(SITECUSTOMIZE.format(folder=str(folder)))
    Lake.create(local, str(folder / "lake"))
    said = subprocess.run(
        [sys.executable, "-m", "tests.broker.talkative_audits", str(folder), brokers.addresses("SASL_SSL")],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(folder / "site")},
        capture_output=True,
        check=False,
    )
    for name, text in (("stdout", said.stdout), ("stderr", said.stderr)):
        (folder / name).write_bytes(text)
    assert said.returncode == 0, said.stderr.decode()
    return folder


def one_line(pem):
    """As it is in a properties file."""
    return pem.strip().replace("\n", "\\n")


def written_forms(secret):
    """As it may be written down: as it is, escaped, in base64 wherever it begins there, in hex, byte by byte."""
    utf8 = secret.encode()
    forms = {secret, quote(secret), quote(secret, safe=""), quote_plus(secret), utf8.hex(), utf8.hex(" ")}
    forms |= {separator.join(map(str, utf8)) for separator in (", ", ",", " ")}
    for before in range(3):
        for code in (base64.b64encode, base64.urlsafe_b64encode):
            text = code(b"\0" * before + utf8).decode().rstrip("=")
            # The first and the last characters also depend on what is beside it.
            forms.add(text[(0, 2, 3)[before] : -1])
    return {form.encode() for form in forms} | {secret.encode("utf-16-le")}


def secrets_of(certificate):
    lines = private_key(certificate).strip().splitlines()[1:-1]
    return {
        "password": PASSWORD,
        # Its first line is the same for many keys.
        **{f"line {number} of the key": line for number, line in enumerate(lines) if 0 < number < len(lines) - 1},
    }


def found_in(folder, secrets):
    """Names of files that have a secret in any form, with its name."""
    forms = {name: re.compile(b"|".join(map(re.escape, sorted(written_forms(s))))) for name, s in secrets.items()}
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.parent != folder / "site" and path.suffix != ".properties":
            data = path.read_bytes()
            found += [(str(path.relative_to(folder)), name) for name, form in forms.items() if form.search(data)]
    return found


def test_the_program_did_its_work(folder):
    """Otherwise it would prove nothing that no secret is found."""
    said = (folder / "stdout").read_text()
    assert said.rstrip().endswith("exit code 0")
    assert "public Object generate(" in said
    (events,) = (folder / "events").rglob("events_*")
    assert "SparkListenerSQLExecutionStart" in events.read_text() and "PythonRDD" in events.read_text()
    assert " DEBUG " in f" {(folder / 'spark.log').read_text()}"
    assert len(list(folder.glob("python-*.log"))) > 1


def test_kafka_raw_reads_all_records_and_says_why_it_cannot_read_a_missing_topic(folder):
    said = (folder / "stdout").read_text()
    partitions = [each for row in rows(folder / "lake", "audits") for each in row["partitions"] or ()]
    count = sum(each["records"] for each in partitions if each["topic"] is None)
    assert count > 0 and f"records={count}\n" in said
    assert "refused=" in said and "the cluster has no topic nowhere" in said
    assert "BatchScan kafka-raw" in said
    assert "PlainLoginModule" not in said + (folder / "stderr").read_text()
    for events in (folder / "events").rglob("*"):
        assert events.is_dir() or "PlainLoginModule" not in events.read_text()


def test_no_secret_is_in_the_files_or_the_output_of_audits(folder, certificate):
    assert found_in(folder, secrets_of(certificate)) == []
