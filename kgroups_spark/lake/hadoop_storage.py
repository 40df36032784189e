"""Hadoop's settings of S3 for pyarrow, and the spelling of an S3 location that Hadoop understands."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.java_classes import JavaClasses, dict_of
from kgroups_spark.session import DELTA_JAR, NOT_FOR_S3, S3_JARS, require_jvm
from kgroups_spark.storage import s3


def use_hadoops_storage(spark: SparkSession) -> None:
    """Lets pyarrow reach S3 as this session's Hadoop does, in this process and in tasks that get the settings.

    Access keys are read as Hadoop reads them, because it may keep them in its own files (a credential provider).
    Raises KgroupsError for a session of Spark Connect.
    """
    require_jvm(spark)
    hadoop: Any = spark._jsc.hadoopConfiguration()
    settings = dict_of(hadoop.getPropsWithPrefix("fs.s3a."))
    for name in s3.SECRETS:
        secret = hadoop.getPassword(f"fs.s3a.{name}")
        if secret is not None:
            settings[name] = "".join(secret)
    s3.use(s3.S3Settings(settings))


def name_for_hadoop(location: str, java: JavaClasses, hadoop: Any) -> str:
    """The location with a scheme that Hadoop knows: s3a:// for S3, unless a platform has its own s3:// (EMR).

    Raises UsageError for credentials in the location, KgroupsError if Hadoop's S3 classes are missing.
    """
    s3.require_no_credentials(location)
    scheme, separator, rest = location.partition("://")
    if not s3.is_s3(location) or (scheme != "s3a" and hadoop.get(f"fs.{scheme}.impl") is not None):
        return location
    if not java.has("org.apache.hadoop.fs.s3a.S3AFileSystem"):
        raise KgroupsError(
            "Hadoop's S3 is not on Spark's class path; conf/s3.conf puts it there, or spark-submit "
            f"--packages {','.join((DELTA_JAR, *S3_JARS))} --exclude-packages {','.join(NOT_FOR_S3)}"
        )
    return f"s3a{separator}{rest}"
