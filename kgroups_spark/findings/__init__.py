"""Findings: odd things in a lake, with what to do about them. They are the rows of `findings`.

Each finding is reported once for a group (or an offsets partition, a producer, a name pattern), however often it holds
there. An audit looks for findings in `audit/result.py`, after all tables are committed.

sql/         one file a finding: a head (severity, summary, sentences), and a query that DuckDB runs
finding.py   the form of a finding, the list of their kinds, and the evidence
finders.py   runs the queries; the listing of the transaction coordinator
"""
