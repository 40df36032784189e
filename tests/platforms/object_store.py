"""A real S3 server on this machine: S3Proxy, which keeps objects as files of a folder, a bucket a folder in it.

It checks signatures and honours `If-None-Match: *`, and needs nothing but the Java that Spark needs.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import S3FileSystem

from tests.broker.brokers import HOST, Port, listens
from tests.platforms.jars import object_store_jars


# Servers of a test: started on this machine's loopback, ended with the test, their output kept in a file.
@contextmanager
def server(
    command: Sequence[str], log: Path, environment: Mapping[str, str], is_up: Callable[[], bool]
) -> Iterator[subprocess.Popen[bytes]]:
    """The process once it `is_up`. Raises RuntimeError with what it said when it ends before, or takes too long."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=dict(environment))
    try:
        deadline = time.monotonic() + 90
        while not is_up():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not start: {log.read_text()[-3000:]}")
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# S3Proxy's own setting writes a page a request.
QUIET = """<configuration><appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%level %logger{0} %msg%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="OUT"/></root></configuration>"""


@dataclass(frozen=True)
class ObjectStore:
    """Where it is, who may use it, and the folder with its buckets."""

    endpoint: str
    access_key: str
    secret_key: str
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The same for AWS's tools."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }

    @property
    def hadoop(self) -> dict[str, str]:
        """Hadoop's settings for it, without `spark.hadoop.`."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": self.access_key,
            "fs.s3a.secret.key": self.secret_key,
        }

    def file_system(self) -> S3FileSystem:
        """Its buckets as folders; what is put there by another way has no ETag."""
        keys = {"access_key": self.access_key, "secret_key": self.secret_key}
        return S3FileSystem(**keys, endpoint_override=self.endpoint, region="us-east-1")


@contextmanager
def object_store(folder: Path, buckets: tuple[str, ...]) -> Iterator[ObjectStore]:
    """An object store with these buckets."""
    port = Port().number
    store = ObjectStore(f"http://{HOST}:{port}", "tests", f"secret-{secrets.token_hex(16)}", folder / "objects")
    for bucket in buckets:
        (store.folder / bucket).mkdir(parents=True)
    properties, logback = folder / "s3proxy.properties", folder / "logback.xml"
    properties.write_text(
        f"s3proxy.endpoint={store.endpoint}\ns3proxy.authorization=aws-v2-or-v4\n"
        f"s3proxy.identity={store.access_key}\ns3proxy.credential={store.secret_key}\n"
        f"jclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={store.folder}\n"
    )
    logback.write_text(QUIET)
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", ":".join(object_store_jars())]
    command += [f"-Dlogback.configurationFile={logback}", "org.gaul.s3proxy.Main", "--properties", str(properties)]
    with server(command, folder / "s3proxy.log", os.environ, lambda: listens(port)):
        yield store
