from kgroups_spark.commands.audits import COLUMNS, note_lines, one_row_an_audit, sums
from kgroups_spark.tables.ledger_schema import AUDITS


def ledger_row(audit_id, status, **facts):
    return {"audit_id": audit_id, "status": status, "partitions": None, "quarantined": None, "notes": None} | facts


FINISHED = ledger_row(
    1,
    "finished",
    partitions=[{"records": 10}, {"records": 5}],
    quarantined={"corrupt_batch": 2, "truncated": 1},
    notes=["partition 7 is missing"],
)


def test_an_audit_is_its_finished_row_or_the_running_one():
    rows = one_row_an_audit([ledger_row(2, "running"), FINISHED, ledger_row(1, "running")])
    assert [(row["audit_id"], row["status"]) for row in rows] == [(1, "finished"), (2, "running")]


def test_sums_of_what_is_too_wide_for_a_screen():
    assert sums(FINISHED) == {"partition_count": 2, "records_read": 15, "quarantine_count": 3, "note_count": 1}


def test_an_unfinished_audit_has_no_sums():
    assert set(sums(ledger_row(2, "running")).values()) == {None}


def test_notes_say_whose_they_are():
    assert note_lines([FINISHED, ledger_row(2, "running")]) == ["audit 1: partition 7 is missing"]


def test_json_and_csv_have_the_whole_ledger_in_its_order():
    assert [column.name for column in COLUMNS] == AUDITS.names
