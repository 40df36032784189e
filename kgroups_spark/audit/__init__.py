"""The audit, in the driver: plan, read, replay, commit, decide, find, finish. Also rebuild, maintain and compare.

run.py                             the steps of an audit, or a rebuild: claim, read, replay, ledger. Begin here
options.py                         what a user asks of an audit
log_source.py, cluster_facts.py    folders or a cluster, with their settings; what only a cluster knows
plan.py, same_log.py               where each partition is resumed; whether it is still the same log (R8)
work.py                            the means of an audit, shared by its steps: plan, state, names, tasks, as_of
state_log_plan.py                  plan of the two other logs, and what they add to our tables
result.py                          the ledger's row with its notes, the findings, the summary that people read
rebuild.py                         all other tables from history (R3)
maintain.py                        upkeep under a claim, from the first to the last step
keep.py                            history that is reduced; small files, old files
comparison.py, differences.py      two releases over one history; how two states differ, and why
"""
