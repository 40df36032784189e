"""Values of properties that are in the environment or in files."""

from __future__ import annotations

import pytest

from kgroups_spark.cluster.client_properties import client_properties, resolve
from kgroups_spark.cluster.property import BadClientProperty
from kgroups_spark.errors import UsageError

CLASS = "org.apache.kafka.common.config.provider"
ENV = {"config.providers": "env", "config.providers.env.class": f"{CLASS}.EnvVarConfigProvider"}


def test_references_are_replaced_within_values(monkeypatch):
    monkeypatch.setenv("KGROUPS_TEST_USER", "alice")
    monkeypatch.setenv("KGROUPS_TEST_PASSWORD", "hush}$")
    properties = {**ENV, "x": '"${env:KGROUPS_TEST_USER}" "${env:KGROUPS_TEST_PASSWORD}"', "y": "$ {plain}"}
    assert resolve(properties).properties == {"x": '"alice" "hush}$"', "y": "$ {plain}"}
    assert resolve(properties).found == ("alice", "hush}$")


def test_values_are_read_from_files_and_folders(tmp_path):
    (tmp_path / "secrets.properties").write_text("pass\\ word=hüsh\n", encoding="utf-8")
    (tmp_path / "token").write_text("tök\n", encoding="utf-8")
    properties = {
        "config.providers": "file, dir",
        "config.providers.file.class": f"{CLASS}.FileConfigProvider",
        "config.providers.dir.class": f"{CLASS}.DirectoryConfigProvider",
        "x": f"${{file:{tmp_path}/secrets.properties:pass word}}",
        "y": f"${{dir:{tmp_path}:token}}",
    }
    assert resolve(properties).properties == {"x": "hüsh", "y": "tök\n"}


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        (
            {"x": "${env:HOME}"},
            r"x has a reference .* there is no config\.providers; for the environment write",
        ),
        ({**ENV, "x": "${vault:s3cret}"}, r"undeclared provider: config\.providers names env;"),
        ({**ENV, "x": "${env:KGROUPS_TEST_NONE}"}, "reference in x .* no environment variable KGROUPS_TEST_NONE"),
        ({**ENV, "x": "${env:path:HOME}"}, r"has a name only"),
        (
            {"config.providers": "v", "config.providers.v.class": "com.x.Vault"},
            r"config\.providers\.v\.class must be one of",
        ),
        ({"config.providers": "v"}, r"config\.providers\.v\.class must be one of"),
        (
            {**ENV, "config.providers.env.param.allowlist.pattern": "K.*"},
            r"config\.providers\.env\.param\.\* would restrict what may be read, and is not supported: leave it out",
        ),
        (
            {
                "config.providers": "f",
                "config.providers.f.class": f"{CLASS}.FileConfigProvider",
                "x": "${f:/no/file:k}",
            },
            "the reference in x cannot be resolved: the file /no/file cannot be read: No such file",
        ),
    ],
)
def test_an_unresolvable_reference_is_refused_without_showing_it(properties, problem):
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


@pytest.mark.parametrize("key", ["../closed", "..", "sub/file"])
def test_a_key_must_name_a_file_in_the_folder(tmp_path, key):
    (tmp_path / "closed").write_text("s3cret")
    (tmp_path / "open").mkdir()
    properties = {
        "config.providers": "p",
        "config.providers.p.class": f"{CLASS}.DirectoryConfigProvider",
        "x": f"${{p:{tmp_path}/open:{key}}}",
    }
    with pytest.raises(BadClientProperty, match="is not the name of a file in"):
        resolve(properties)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("request.timeout.ms", "hush"),
        ("security.protocol", "sasl_Hush"),
        ("client.dns.lookup", "hush"),
        ("ssl.endpoint.identification.algorithm", "hush"),
        ("ssl.enabled.protocols", "TLSv1.2,hush"),
        ("ssl.keystore.type", "hush"),
        ("ssl.truststore.location", "/hush/file"),
        ("sasl.mechanism", "hush"),
        ("sasl.jaas.config", "com.hush.Module required;"),
        ("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule hush"),
        ("sasl.oauthbearer.token.endpoint.url", "ftp://hush"),
    ],
)
def test_no_error_prints_a_providers_value(name, value, monkeypatch):
    monkeypatch.setenv("KGROUPS_TEST_VALUE", value)
    properties = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", **ENV}
    with pytest.raises(UsageError) as caught:
        client_properties("b:9092", {**properties, name: "${env:KGROUPS_TEST_VALUE}"})
    assert "hush" not in str(caught.value).lower()


def test_a_providers_value_is_hidden_in_later_messages_as_well(monkeypatch):
    monkeypatch.setenv("KGROUPS_TEST_VALUE", "hush-hush")
    client = client_properties("b:9092", {**ENV, "client.id": "${env:KGROUPS_TEST_VALUE}"})
    assert client.without_secrets("no quota for hush-hush") == "no quota for [hidden]"
