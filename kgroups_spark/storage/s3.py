"""S3 by pyarrow, configured like Hadoop's s3a.

Spark reaches s3a:// through Hadoop, and Hadoop's settings (`fs.s3a.*`) have the endpoint and the credentials. Tasks
write parts and read segments by pyarrow, which does not know these settings, so this module translates them. For a
setting that Hadoop does not have, and without Hadoop (`kgroups dump`), pyarrow uses the sources of AWS's own tools:
AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, AWS_REGION, ~/.aws, the machine's role.

The driver calls `use`; `with_storage` sends the settings to tasks. They are part of the task's code, just as Spark
sends Hadoop's own settings, so they are in no plan, event log or table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyarrow import fs

from kgroups_spark.errors import UsageError
from kgroups_spark.storage.memory import use_jemalloc

# Schemes of the same storage: s3 is AWS's and pyarrow's, s3a Hadoop's, s3n an old one of Hadoop's.
SCHEMES = ("s3", "s3a", "s3n")

SECRETS = ("access.key", "secret.key", "session.token")
# Hadoop's settings that pyarrow needs, without `fs.s3a.`. Hadoop 3.5: org.apache.hadoop.fs.s3a.Constants
TRANSLATED = (
    *SECRETS,
    "aws.credentials.provider",
    "connection.ssl.enabled",
    "endpoint",
    "endpoint.region",
    "path.style.access",
)

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class S3Settings:
    """Hadoop's settings of S3 that pyarrow needs: `fs.s3a.bucket.<bucket>.` takes precedence over `fs.s3a.`.

    Its text shows no value, because some are secrets.
    """

    def __init__(self, hadoop: Mapping[str, str] | None = None) -> None:
        """`hadoop`: settings by names without `fs.s3a.`; those not in TRANSLATED are dropped. None: without Hadoop."""
        self._there_is_hadoop = hadoop is not None
        self._values = {name: value for name, value in (hadoop or {}).items() if name.endswith(TRANSLATED)}

    def __repr__(self) -> str:
        return f"S3Settings({', '.join(sorted(self._values))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, S3Settings) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def options(self, bucket: str) -> dict[str, Any]:
        """The arguments of pyarrow's S3FileSystem for a bucket."""
        endpoint = self._value(bucket, "endpoint")
        endpoint = endpoint or endpoint_of_environment()
        options = {
            **self._credentials(bucket),
            "region": self._value(bucket, "endpoint.region") or _region_in(endpoint),
        }
        if endpoint and not _is_amazons(endpoint):
            protocol = "http" if self._value(bucket, "connection.ssl.enabled") == "false" else "https"
            options["endpoint_override"] = endpoint if "://" in endpoint else f"{protocol}://{endpoint}"
            # By default Hadoop has the bucket in the host name, pyarrow in the path. A numeric address cannot have it.
            in_path = self._value(bucket, "path.style.access") == "true" or not self._there_is_hadoop
            is_number = re.fullmatch(r"[\d.]+", _host(endpoint)) is not None
            options["force_virtual_addressing"] = not in_path and not is_number
            options["region"] = options["region"] or region_of_environment() or "us-east-1"
        return options

    def _credentials(self, bucket: str) -> dict[str, Any]:
        """The credentials; empty if pyarrow must find its own. A key without its secret is dropped: pyarrow refuses
        it."""
        access_key, secret_key, session_token = (self._value(bucket, name) for name in SECRETS)
        if access_key and secret_key:
            pair = {"access_key": access_key, "secret_key": secret_key}
            return {**pair, "session_token": session_token} if session_token else pair
        provider = self._value(bucket, "aws.credentials.provider") or ""
        return {"anonymous": True} if provider.endswith("AnonymousAWSCredentialsProvider") else {}

    def _value(self, bucket: str, name: str) -> str | None:
        value = self._values.get(f"bucket.{bucket}.{name}") or self._values.get(name)
        return value.strip() or None if value else None


_settings = S3Settings()
_file_systems: dict[str, fs.S3FileSystem] = {}


def use(settings: S3Settings) -> None:
    """Makes this process reach S3 with these settings from now on."""
    global _settings
    if settings != _settings:
        _settings = settings
        _file_systems.clear()


def with_storage(task: Task) -> Task:
    """The task for `mapInArrow`, which runs everywhere with the calling process's settings, and with jemalloc."""
    settings = _settings

    def on_storage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use(settings)
        use_jemalloc()
        yield from task(batches)

    return on_storage


def is_s3(location: str) -> bool:
    """Whether a URI names S3, by any of its schemes."""
    return location.partition("://")[0] in SCHEMES and "://" in location


def s3_file_system(location: str) -> tuple[fs.S3FileSystem, str]:
    """pyarrow's file system for s3://bucket/path, and `bucket/path`. Raises UsageError as require_no_credentials.

    A URI with options (`?region=eu-west-1`) ignores the settings.
    """
    require_no_credentials(location)
    rest = location.split("://", 1)[1]
    if "?" in rest:
        file_system, path = fs.FileSystem.from_uri(f"s3://{rest}")
        return file_system, path
    bucket = rest.partition("/")[0]
    if bucket not in _file_systems:
        _file_systems[bucket] = _connected(bucket)
    return _file_systems[bucket], rest.rstrip("/")


def _connected(bucket: str) -> fs.S3FileSystem:
    options = _settings.options(bucket)
    if "endpoint_override" not in options and not options["region"]:
        options["region"] = region_of_environment() or fs.resolve_s3_region(bucket)
    # A small file in one request instead of three.
    return fs.S3FileSystem(**options, allow_delayed_open=True)


def require_no_credentials(location: str) -> None:
    """Raises UsageError for s3://key:secret@bucket, because locations are printed and are in tables."""
    scheme, _, rest = location.partition("://")
    if is_s3(location) and "@" in rest.partition("/")[0]:
        raise UsageError(
            f"a {scheme}:// location with credentials in it would be printed and stored: give them as "
            "spark.hadoop.fs.s3a.access.key and .secret.key, or as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )


def endpoint_of_environment() -> str | None:
    """The endpoint of S3 in the settings of AWS's tools."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def deltalake_options(location: str) -> dict[str, str] | None:
    """The options with which deltalake reaches S3 as AWS's tools do: it reads their settings itself, but refuses http
    without being asked, and does not know the endpoint of S3 alone. None: it needs none."""
    endpoint = endpoint_of_environment() if is_s3(location) else None
    if endpoint is None:
        return None
    return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}


def require_bucket(location: str) -> None:
    """Raises UsageError for a URI of S3 without a bucket."""
    if is_s3(location) and not location.partition("://")[2].partition("/")[0]:
        raise UsageError(f"{location} names no bucket: write s3://bucket/folder")


def region_of_environment() -> str | None:
    """The region in the settings of AWS's tools."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def _host(endpoint: str) -> str:
    return endpoint.split("://", 1)[-1].partition("/")[0].partition(":")[0]


def _is_amazons(endpoint: str) -> bool:
    """Whether it is a region's public endpoint, which follows from the region. A VPC's private endpoint is not."""
    return re.fullmatch(r"s3([.-][a-z0-9-]+)?\.amazonaws\.com(\.cn)?", _host(endpoint)) is not None


def _region_in(endpoint: str | None) -> str | None:
    match = re.fullmatch(r"s3[.-]([a-z0-9-]+)\.amazonaws\.com(\.cn)?", _host(endpoint or ""))
    return match[1] if match else None
