"""Hadoop's settings of S3, translated for pyarrow."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from kgroups_spark.errors import UsageError
from kgroups_spark.sources import files
from kgroups_spark.sources.files import S3Settings, file_system, is_s3, with_storage

KEYS = {"access.key": "me", "secret.key": "hush"}


@pytest.fixture(autouse=True)
def nothing_from_outside(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    yield
    files.use(S3Settings())


@pytest.mark.parametrize(
    ("hadoop", "options"),
    [
        ({}, {"region": None}),
        (
            {**KEYS, "endpoint.region": " eu-west-1\n"},
            {"access_key": "me", "secret_key": "hush", "region": "eu-west-1"},
        ),
        (
            {**KEYS, "session.token": "for an hour"},
            {"access_key": "me", "secret_key": "hush", "session_token": "for an hour", "region": None},
        ),
        ({"access.key": "half a pair"}, {"region": None}),
        ({"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}, {"anonymous": True}),
        ({"endpoint": "s3.eu-central-1.amazonaws.com"}, {"region": "eu-central-1"}),
        ({"endpoint": "https://s3.amazonaws.com"}, {"region": None}),
        (
            {"endpoint": "http://127.0.0.1:9000"},
            {"endpoint_override": "http://127.0.0.1:9000", "force_virtual_addressing": False, "region": "us-east-1"},
        ),
        (
            {"endpoint": "storage:9000", "path.style.access": "true", "connection.ssl.enabled": "false"},
            {"endpoint_override": "http://storage:9000", "force_virtual_addressing": False, "region": "us-east-1"},
        ),
        (
            {"endpoint": "storage.example", "path.style.access": "false", "endpoint.region": "here"},
            {"endpoint_override": "https://storage.example", "force_virtual_addressing": True, "region": "here"},
        ),
        (
            {
                "endpoint": "storage:1",
                "bucket.lakes.endpoint": "http://127.0.0.1:2",
                "bucket.other.endpoint": "storage:3",
            },
            {"endpoint_override": "http://127.0.0.1:2", "force_virtual_addressing": False, "region": "us-east-1"},
        ),
    ],
)
def test_hadoops_settings_are_pyarrows_options(hadoop, options):
    assert S3Settings(hadoop).options("lakes") == {"region": None, **options}


def test_settings_print_no_value_and_keep_no_more_than_they_need():
    settings = S3Settings({**KEYS, "bucket.lakes.secret.key": "hush", "encryption.key": "hush", "threads.max": "96"})
    assert repr(settings) == "S3Settings(access.key, bucket.lakes.secret.key, secret.key)"
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_tasks_reach_storage_as_the_driver_does():
    files.use(S3Settings({**KEYS, "endpoint": "http://127.0.0.1:9000"}))
    task = with_storage(lambda batches: (pa.record_batch({"endpoint": [endpoint()]}) for _ in batches))
    files.use(S3Settings())  # another process
    assert next(task(iter([None]))).to_pydict() == {"endpoint": ["http://127.0.0.1:9000"]}


def endpoint():
    return files._settings.options("lakes")["endpoint_override"]


def test_all_schemes_of_s3_are_one_storage():
    files.use(S3Settings({**KEYS, "endpoint": "http://127.0.0.1:9000"}))
    found = [file_system(f"{scheme}://lakes/a lake/") for scheme in ("s3", "s3a", "s3n")]
    assert [path for _, path in found] == ["lakes/a lake"] * 3
    assert {system.type_name for system, _ in found} == {"s3"}
    assert found[0][0] is found[1][0]
    files.use(S3Settings({**KEYS, "endpoint": "http://127.0.0.1:9001"}))
    assert file_system("s3://lakes/x")[0] is not found[0][0]


@pytest.mark.parametrize("location", ["s3://me:hush@lakes/x", "s3a://me:hush@lakes", "s3n://me@lakes/x"])
def test_credentials_in_a_location_are_refused_and_not_repeated(location):
    with pytest.raises(UsageError, match="credentials in it would be printed and stored") as caught:
        files.require_no_credentials(location)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("location", ["/data/s3://x", "s3", "lakes/x", "abfss://lakes@account/x", "s3://lakes/x@y"])
def test_a_location_without_s3_or_without_credentials_passes(location):
    assert is_s3(location) == location.startswith("s3://")
    files.require_no_credentials(location)
