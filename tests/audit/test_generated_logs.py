"""Generated logs through the whole audit: its tables equal what Kafka's own coordinator classes held after a load."""

from __future__ import annotations

import pytest

from kgroups_spark.coordinator.releases import release
from tests.chosen import one_of
from tests.coordinator.generated_logs import answers
from tests.coordinator.oracle_answers import Tables, reported_otherwise
from tests.logs.generated_logs import LOGS
from tests.logs.log_files import read_zip
from tests.nights.nights_here import How, audit


@pytest.mark.parametrize("version", one_of("4.3.1", "4.2.1", "4.1.2", "4.0.2", "3.9.2"))
def test_tables_agree_with_kafkas_own_classes(version, chosen):
    found, logs = [], read_zip(LOGS)
    for log in chosen.some(logs, len(logs) // 24):
        audited = audit(logs[log], How(version))
        assert audited.record_count() == audited.records_read()
        for number, answer in ((answer["partition"], answer) for of, answer in answers(version) if of == log):
            tables = Tables(release(version), lambda name, number=number, of=audited: of_partition(of, name, number))
            found += [f"{log}-{number} {line}" for line in reported_otherwise(answer, tables)]
    assert not found, "\n".join(found[:20])


def of_partition(audited, name, number):
    return [row for row in audited.rows(name) if row["offsets_partition"] == number]
