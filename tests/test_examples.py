"""The files of examples/, each checked by its own validator; the commands in them parse."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from dockerfile_parse import DockerfileParser

from kgroups_spark.cli.main import parse
from tests.pages import ROOT

EXAMPLES = ROOT / "examples"
# https://docs.docker.com/reference/dockerfile: those that we use.
INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENTRYPOINT", "CMD"}


def dockerfile():
    """Instruction and value, in their order, without comments."""
    parser = DockerfileParser(path=str(EXAMPLES / "Dockerfile"))
    return [(each["instruction"], each["value"]) for each in parser.structure if each["instruction"] != "COMMENT"]


def manifests():
    return list(yaml.safe_load_all((EXAMPLES / "kubernetes-cronjob.yaml").read_text()))


def test_the_dockerfile_has_known_instructions_and_copies_existing_files():
    found = dockerfile()
    assert found[0][0] == "FROM"
    assert {instruction for instruction, _ in found} == INSTRUCTIONS
    for instruction, value in found:
        if instruction == "COPY":
            *sources, _ = value.split()
            assert all((ROOT / source).exists() for source in sources), value


def test_the_dockerfile_installs_what_ci_tests_and_does_not_run_as_root():
    found = dockerfile()
    values = dict(found)
    assert values["FROM"].startswith("python:3.11-")
    assert any(f"--uid {values['USER']} " in value for kind, value in found if kind == "RUN")
    assert [value for kind, value in found if kind == "RUN" and "pip install" in value] == [
        "pip install --no-cache-dir --constraint constraints.txt '.[local,live,metrics]'"
    ]
    assert any("openjdk-17-jre" in value for kind, value in found if kind == "RUN")
    assert values["ENTRYPOINT"] == '["kgroups"]'
    (demo,) = [value.split(" && ")[0] for kind, value in found if kind == "RUN" and "demo" in value]
    assert parse(shlex.split(demo)[1:]).command == "demo"


def test_the_containers_user_may_write_where_the_dockerfiles_first_lines_put_the_lake():
    """Docker makes a missing folder of the host for root, a new volume like the image's folder."""
    (run,) = re.findall("^# +(docker run .*)$", (EXAMPLES / "Dockerfile").read_text(), re.MULTILINE)
    words = shlex.split(run)
    volume, folder = words[words.index("-v") + 1].split(":")
    lake = parse(words[words.index("kgroups-spark") + 1 :]).lake
    assert "/" not in volume and lake.startswith(f"{folder}/")
    assert any(f"install --directory --owner kgroups {folder}" in value for _, value in dockerfile())


def linted(*command, text):
    """The output of a linter about a file with this text."""
    path = Path(sys.executable).with_name(command[0])
    done = subprocess.run([str(path), *command[1:], "-"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (done.stdout in ("", "All checks passed!\n")), done.stderr
    return done.stdout


def test_hadolint_finds_nothing_in_the_dockerfile():
    text = (EXAMPLES / "Dockerfile").read_text()
    assert linted("hadolint", text=text) == ""
    assert "DL3002" in linted("hadolint", text=text.replace("USER 10001", "USER root"))


def test_ruff_accepts_the_dag_for_airflow_3():
    """`make lint` has these rules, too."""
    text = (EXAMPLES / "airflow_dag.py").read_text()
    assert linted("ruff", "check", "--select", "AIR", text=text) == "All checks passed!\n"
    assert "AIR301" in linted("ruff", "check", "--select", "AIR", text=text.replace("schedule=", "schedule_interval="))


@pytest.mark.parametrize("manifest", manifests(), ids=lambda manifest: manifest["kind"])
def test_kubernetes_accepts_the_manifest(manifest):
    """Raises ValidationError, also for a field that is unknown."""
    kubernetes_validate.validate(manifest, "1.33", strict=True)


def pod_of(cron_job):
    return cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def test_the_cron_job_runs_one_audit_at_a_time_on_a_declared_volume():
    claim, cron_job, upkeep = manifests()
    assert cron_job["spec"]["concurrencyPolicy"] == "Forbid"
    pod = pod_of(cron_job)
    container, *others = [*pod["initContainers"], *pod["containers"]]
    commands = [parse(each["args"]).command for each in (container, *others, *pod_of(upkeep)["containers"])]
    assert commands == ["audit", "metrics", "findings", "maintain"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert claim["metadata"]["name"] in [
        volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume
    ]
    (lake,) = [each["value"] for each in container["env"] if each["name"] == "KGROUPS_LAKE"]
    assert lake.startswith(f"{container['volumeMounts'][0]['mountPath']}/")
    user = f"--uid {pod['securityContext']['runAsUser']} "
    assert any(user in value for _, value in dockerfile())


def test_the_commands_of_systemd_and_cron_parse():
    unit = (EXAMPLES / "kgroups-audit.service").read_text()
    crontab = (EXAMPLES / "crontab").read_text()
    lines = re.findall(r"^ExecStart=\S+/kgroups (.*)$", unit, re.MULTILINE)
    lines += re.findall(
        r"^[\d* ]{9,}.*?\bkgroups ((?:audit|audits|findings|maintain) [^|>]*?)(?: 2)?[|>\n]", crontab, re.MULTILINE
    )
    assert [parse(shlex.split(line)).command for line in lines] == [
        *("audit", "metrics", "findings"),
        *("audit", "audits", "findings", "maintain"),
    ]


def test_the_dag_audits_first_and_its_commands_parse():
    text = (EXAMPLES / "airflow_dag.py").read_text()
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    operators = [{each.arg: each.value for each in call.keywords} for call in calls if "bash_command" in ast.dump(call)]
    commands = [
        (ast.literal_eval(each["task_id"]), ast.literal_eval(each["bash_command"]))
        for each in operators
        if "task_id" in each
    ]
    assert len(commands) == 5
    for name, command in commands:
        assert parse(shlex.split(command[command.index("kgroups ") :])[1:]).command == name
    assert "\n    audit >> [metrics, findings, expiring, maintain]\n" in text
    assert all(setting in text for setting in ("catchup=False", "max_active_runs=1", '"KGROUPS_LAKE": '))
