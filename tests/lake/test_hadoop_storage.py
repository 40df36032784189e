"""Hadoop's settings of S3 and its names for S3, through stand-ins of its JVM (the real one: tests/platforms)."""

from __future__ import annotations

from types import SimpleNamespace
from unittest import mock

import pytest
from py4j.java_gateway import JavaPackage

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.hadoop import name_for_hadoop, use_hadoops_storage
from kgroups_spark.sources import files


def java(s3a):
    return {"org.apache.hadoop.fs.s3a.S3AFileSystem": s3a}.__getitem__


class JavaMap(dict):
    def keySet(self):
        return SimpleNamespace(toArray=lambda: list(self))


class Hadoop(dict):
    """Its settings; `hidden` are in files of a credential provider."""

    def __init__(self, settings=(), hidden=()):
        super().__init__(settings)
        self.hidden = dict(hidden)

    def getPropsWithPrefix(self, prefix):
        found = {name.removeprefix(prefix): value for name, value in self.items() if name.startswith(prefix)}
        return JavaMap(found)

    def getPassword(self, name):
        found = self.hidden.get(name) or self.get(name)
        return None if found is None else list(found)


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("s3://lakes/x", "s3a://lakes/x"),
        ("s3n://lakes/x", "s3a://lakes/x"),
        ("s3a://lakes/x", "s3a://lakes/x"),
        ("hdfs://lakes/x", "hdfs://lakes/x"),
        ("/lakes/s3://x", "/lakes/s3://x"),
    ],
)
def test_s3_is_s3a_to_hadoop(location, name):
    assert name_for_hadoop(location, java("a class"), Hadoop()) == name


def test_a_platform_with_its_own_s3_keeps_it():
    emr = Hadoop({"fs.s3.impl": "com.amazon.ws.emr.hadoop.fs.EmrFileSystem"})
    assert name_for_hadoop("s3://lakes/x", java("a class"), emr) == "s3://lakes/x"


def test_without_hadoops_s3_the_error_says_how_to_get_it():
    missing = JavaPackage("org.apache.hadoop.fs.s3a.S3AFileSystem", None)
    with pytest.raises(KgroupsError, match=r"spark-submit --packages \S*org.apache.hadoop:hadoop-aws:\S+ --exclude"):
        name_for_hadoop("s3://lakes/x", java(missing), Hadoop())
    assert name_for_hadoop("hdfs://lakes/x", java(missing), Hadoop()) == "hdfs://lakes/x"


def test_pyarrow_gets_keys_that_hadoop_keeps_in_files():
    hadoop = Hadoop({"fs.s3a.endpoint.region": "here", "fs.s3a.access.key": "me"}, {"fs.s3a.secret.key": "hush"})
    used = []
    with mock.patch.object(files, "use", used.append):
        use_hadoops_storage(SimpleNamespace(version="4.2.0", _jsc=SimpleNamespace(hadoopConfiguration=lambda: hadoop)))
    assert used[0].options("lakes") == {"access_key": "me", "secret_key": "hush", "region": "here"}
