"""Values of properties that stand in the environment or in files."""

from __future__ import annotations

import pytest

from kgroups_spark.sources.client_property import BadClientProperty
from kgroups_spark.sources.config_providers import resolve

CLASS = "org.apache.kafka.common.config.provider"
ENV = {"config.providers": "env", "config.providers.env.class": f"{CLASS}.EnvVarConfigProvider"}


def test_references_are_replaced_within_values(monkeypatch):
    monkeypatch.setenv("KGROUPS_TEST_USER", "alice")
    monkeypatch.setenv("KGROUPS_TEST_PASSWORD", "hush}$")
    properties = {**ENV, "x": '"${env:KGROUPS_TEST_USER}" "${env:KGROUPS_TEST_PASSWORD}"', "y": "$ {plain}"}
    assert resolve(properties) == {"x": '"alice" "hush}$"', "y": "$ {plain}"}


def test_files_and_folders_are_looked_into(tmp_path):
    (tmp_path / "secrets.properties").write_text("pass\\ word=hüsh\n", encoding="utf-8")
    (tmp_path / "token").write_text("tök\n", encoding="utf-8")
    properties = {
        "config.providers": "file, dir",
        "config.providers.file.class": f"{CLASS}.FileConfigProvider",
        "config.providers.dir.class": f"{CLASS}.DirectoryConfigProvider",
        "x": f"${{file:{tmp_path}/secrets.properties:pass word}}",
        "y": f"${{dir:{tmp_path}:token}}",
    }
    assert resolve(properties) == {"x": "hüsh", "y": "tök\n"}


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        (
            {"x": "${env:HOME}"},
            r"x refers to another place .* there is no config\.providers; for the environment write",
        ),
        ({**ENV, "x": "${vault:s3cret}"}, r"not declared: config\.providers names env;"),
        ({**ENV, "x": "${env:KGROUPS_TEST_NONE}"}, "x refers .* there is no environment variable KGROUPS_TEST_NONE"),
        ({**ENV, "x": "${env:path:HOME}"}, r"has a name only"),
        (
            {"config.providers": "v", "config.providers.v.class": "com.x.Vault"},
            r"config\.providers\.v\.class is none of",
        ),
        ({"config.providers": "v"}, r"config\.providers\.v\.class is none of"),
        ({**ENV, "config.providers.env.param.allowlist.pattern": "A.*"}, "parameters of providers are not supported"),
        (
            {
                "config.providers": "f",
                "config.providers.f.class": f"{CLASS}.FileConfigProvider",
                "x": "${f:/no/file:k}",
            },
            "x refers to a value that cannot be had: the file /no/file cannot be read: No such file",
        ),
    ],
)
def test_what_cannot_be_resolved_is_refused_without_its_text(properties, problem):
    with pytest.raises(BadClientProperty, match=problem) as caught:
        resolve(properties)
    assert "s3cret" not in str(caught.value)


def test_a_key_that_a_file_lacks_is_named(tmp_path):
    (tmp_path / "secrets.properties").write_text("a=b")
    properties = {
        "config.providers": "f",
        "config.providers.f.class": f"{CLASS}.FileConfigProvider",
        "x": f"${{f:{tmp_path}/secrets.properties:c}}",
    }
    with pytest.raises(BadClientProperty, match=r"secrets\.properties has no property c$"):
        resolve(properties)
