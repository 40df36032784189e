"""An Airflow DAG: the nightly audit, then alerts; upkeep on Sundays. For Airflow 3 with the provider `standard`.

The worker needs `kgroups` on its PATH. For a Spark cluster put `spark-submit ... jobs/nightly_audit.py` in place of
`kgroups audit`: the options are the same.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

ENVIRONMENT = {"KGROUPS_LAKE": "/srv/kgroups/lake"}

with DAG(
    dag_id="kgroups",
    schedule="15 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    # An audit reads all records since the last one: no catch-up is needed, and only one may run at a time.
    catchup=False,
    max_active_runs=1,
) as dag:
    audit = BashOperator(
        task_id="audit",
        bash_command="kgroups audit --bootstrap-server broker1:9092 --command-config /etc/kgroups/client.properties",
        env=ENVIRONMENT,
        append_env=True,
        # A second attempt begins where the last finished audit ended.
        retries=2,
        retry_delay=timedelta(minutes=10),
    )
    # Each fails (exit code 4) if there is a row, which is the alert.
    findings = BashOperator(
        task_id="findings",
        bash_command="kgroups findings --severity error --fail-if-any",
        env=ENVIRONMENT,
        append_env=True,
    )
    expiring = BashOperator(
        task_id="expiring",
        bash_command="kgroups expiring --within 48h --fail-if-any",
        env=ENVIRONMENT,
        append_env=True,
    )
    metrics = BashOperator(
        task_id="metrics",
        bash_command="kgroups metrics --push http://pushgateway:9091",
        env=ENVIRONMENT,
        append_env=True,
    )
    maintain = BashOperator(
        task_id="maintain",
        bash_command='[ "$(date +%u)" != 7 ] || kgroups maintain --keep 400d',
        env=ENVIRONMENT,
        append_env=True,
    )
    audit >> [metrics, findings, expiring, maintain]
