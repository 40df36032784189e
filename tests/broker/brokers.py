"""Real brokers on this machine's loopback, without containers: KRaft, one or two nodes, the first also the controller.

    with Brokers("4.3.1", folder, {"offsets.retention.minutes": "1"}) as brokers:
        brokers.address  # "127.0.0.1:21013", for clients without TLS or a password

Clients of a listener without TLS and a password are User:ANONYMOUS. Brokers end with the process that started them,
however that ends.
"""

from __future__ import annotations

import base64
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Self

import trustme
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.maven import asked_for, downloaded_jars, one_at_a_time
from tests.sources.security.handshakes import chain, private_key


# A certificate authority of its own for each test, with a broker's certificate and a client's, as PEM files.
class Certificates:
    """`authority`: the certificate to trust. `server`, `client`: a key, its certificate and what signed that."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        issuer = trustme.CA(organization_name="kgroups-spark tests")
        self.authority = folder / "authority.pem"
        self.authority.write_bytes(issuer.cert_pem.bytes())
        self.server = _written(folder / "server.pem", issuer.issue_cert("127.0.0.1", "localhost"))
        self.client = _written(folder / "client.pem", issuer.issue_cert("auditor@example.org"))


def _written(file: Path, issued: trustme.LeafCert) -> Path:
    file.write_text(private_key(issued) + chain(issued))
    return file


# Kafka's own jars from Maven Central, in the project's cache: a broker, its tools and the Java clients.
# kafka-tools has the dump tools of 4.x, kafka-streams the streams client; both are asked for what they bring.
# `exactly_once` is known to the streams clients up to 3.9.
MORE_MODULES: Mapping[str, tuple[str, ...]] = {"4.3.1": ("kafka-tools", "kafka-streams"), "3.9.2": ("kafka-streams",)}
# Kafka's own choice for its log, log4j, is not among what its modules ask for.
LOGGER = "org.slf4j:slf4j-simple:1.7.36"
# Dependencies of these modules that neither brokers in KRaft mode nor our clients load: Connect and its web server,
# RocksDB (70 MB), the dependencies of ZooKeeper. Names are regular expressions, as Ivy has them. A release has 130 MB
# with them, 42 without.
NOT_NEEDED = (
    "org[.]apache[.]kafka:connect-.*",
    "org[.]rocksdb:.*",
    "org[.]eclipse[.]jetty.*:.*",
    "org[.]glassfish.*:.*",
    "(jakarta|javax|com[.]sun|io[.]swagger|io[.]netty|ch[.]qos).*:.*",
    "com[.]fasterxml[.]jackson[.](module|jakarta).*:.*",
    "(io[.]github[.]classgraph|org[.]apache[.]maven|org[.]codehaus.*|org[.]javassist|aopalliance|org[.]jspecify):.*",
    "(org[.]apache[.]commons|commons-(beanutils|collections|digester)):.*",
    "org[.]scala-lang:scala-reflect",
)


def kafka_jars(release: str) -> list[str]:
    """The class path of a release, downloaded when it is not there. Raises RuntimeError with what Ivy said."""
    modules = [f"org.apache.kafka:{name}:{release}" for name in ("kafka_2.13", *MORE_MODULES.get(release, ()))]
    return downloaded_jars(f"kafka-{release}", asked_for([*modules, LOGGER], "default", NOT_NEEDED))


HOST = "127.0.0.1"
# Below the ports from which a system takes those of outgoing connections: while a broker is down, it keeps its port,
# and no client connects to itself on it.
PORTS = range(21_000, 29_000)


class Port:
    """A port of ours until it is released.

    Reserved between processes by a UDP socket of that number: TCP's ports are others, and brokers listen there.
    """

    def __init__(self) -> None:
        for number in PORTS:
            reserved = _bound(number)
            if reserved is not None:
                self.number, self._reserved = number, reserved
                return
        raise RuntimeError(f"all ports from {PORTS.start} to {PORTS.stop} are taken")

    def release(self) -> None:
        self._reserved.close()


def _bound(number: int) -> socket.socket | None:
    reserved = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        reserved.bind((HOST, number))
        with socket.socket() as server:
            # As brokers do: connections that have just ended do not keep them from listening.
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((HOST, number))
    except OSError:
        reserved.close()
        return None
    return reserved


def listens(port: int) -> bool:
    """Whether a process takes connections there."""
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex((HOST, port)) == 0


JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# Kafka logs warnings and errors alone, with the time of day.
QUIET = tuple(
    f"-Dorg.slf4j.simpleLogger.{name}"
    for name in ("defaultLogLevel=warn", "showDateTime=true", "dateTimeFormat=HH:mm:ss.SSS")
)

SMALL = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.index.size.max.bytes": "1048576",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    # Copies of the log folder end at the high watermark that the broker last wrote down: every 5 s by default.
    "replica.high.watermark.checkpoint.interval.ms": "100",
    # Without heartbeats for so long a broker is put out of its cluster. A busy machine may stop it for Kafka's 9 s.
    "broker.session.timeout.ms": "60000",
    "broker.heartbeat.interval.ms": "500",
}
# Members notice at once what others do. Releases that lack a protocol ignore its properties.
QUICK = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.migration.policy": "bidirectional",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "250",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "2000",
    "group.consumer.max.session.timeout.ms": "600000",
    **{
        f"group.{kind}.{name}.ms": value
        for kind in ("consumer", "share", "streams")
        for name, value in {
            "assignment.interval": "0",
            "heartbeat.interval": "250",
            "min.heartbeat.interval": "250",
            # Members whose machine is busy stay members.
            "session.timeout": "60000",
        }.items()
    },
}

# Lets producers take part in two-phase commits (KIP-939). Up to 4.4.0 clients cannot yet: the version of InitProducerId
# that asks for it is not stable, and no other request has a version that is not.
TWO_PHASE = {"transaction.two.phase.commit.enable": "true", "unstable.api.versions.enable": "true"}


@dataclass(frozen=True)
class Security:
    """More listeners beside PLAINTEXT: `SASL_SSL`, `SSL`, `SASL_PLAINTEXT`. `users`: name to password, for
    SCRAM-SHA-512 and PLAIN alike. `acls`: users other than User:ANONYMOUS may do only what ACLs allow."""

    listeners: tuple[str, ...] = ("SASL_SSL", "SSL")
    users: Mapping[str, str] = field(default_factory=lambda: {"auditor": "auditor-secret"})
    acls: bool = False


class BrokerDied(AssertionError):
    """A broker ended by itself, or did not start; the text has the end of its log."""


def new_data(release: str) -> Path:
    """A new data folder of the release, to be copied. Kafka's StorageTool makes it, once on each machine."""
    place = Path(kafka_jars(release)[0]).parent
    with one_at_a_time(place / "data.lock"), TemporaryDirectory(dir=place) as folder:
        if not (place / "data").is_dir():
            _format(release, Path(folder))
            Path(folder, "data").rename(place / "data")
    return place / "data"


def classes(release: str) -> Path:
    """An archive of the classes that a broker of the release loads, with which it starts with half the work (JVMs call
    it class data sharing): the first broker on a machine and its Java writes it."""
    place, command = Path(kafka_jars(release)[0]).parent, Path(shutil.which(JAVA[0]) or JAVA[0]).resolve()
    archive = place / f"classes-{command.stat().st_mtime_ns}.jsa"
    with one_at_a_time(place / "classes.lock"), TemporaryDirectory(dir=place) as folder:
        if not archive.is_file():
            with closing(Brokers(release, Path(folder) / "brokers")) as brokers:
                brokers.broker.format(brokers.cluster_id)
                brokers.broker.begin(f"-XX:ArchiveClassesAtExit={folder}/{archive.name}")
                brokers.broker.ready()
                brokers.broker.stop()
            Path(folder, archive.name).rename(archive)
    return archive


def _format(release: str, folder: Path) -> None:
    """Makes `data` in the folder, as an administrator does."""
    configuration = folder / "server.properties"
    controller = {"listeners": "CONTROLLER://:1", "controller.listener.names": "CONTROLLER"}
    voters = {"controller.quorum.voters": "1@localhost:1"}
    own = {"process.roles": "controller", "node.id": 1, "log.dirs": folder / "data"}
    configuration.write_text(_text({**own, **controller, **voters}))
    tool = [*java(release), "kafka.tools.StorageTool", "format", "-t", new_id(), "-c", str(configuration)]
    said = subprocess.run(tool, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if said.returncode:
        raise BrokerDied(f"the data folder was not made: {said.stdout[-3000:]}")


def new_id() -> str:
    """A new id of a cluster or a folder, as Kafka writes them. It has no -: Kafka's tools would take an id that begins
    with one for an option."""
    return base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=").replace("-", "A")


def java(release: str, *options: str) -> list[str]:
    """Begins a command with the jars of a release."""
    return [*JAVA, *options, *QUIET, "-cp", ":".join(kafka_jars(release))]


def _text(properties: Mapping[str, object]) -> str:
    """The text of a properties file."""
    return "".join(f"{name}={value}\n" for name, value in properties.items())


class Broker:
    """One process over one data folder, on the same ports from start to start.

    `data`: its log directory, in which `__consumer_offsets-0`, ... are. `log`: what it logs.
    """

    def __init__(self, release: str, folder: Path, properties: Mapping[str, str], ports: Mapping[str, Port]) -> None:
        self.release, self.folder, self.properties, self.ports = release, folder, dict(properties), ports
        self.log, self.data = folder / "broker.log", Path(properties["log.dirs"])
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def address(self, listener: str = "PLAINTEXT") -> str:
        return f"{HOST}:{self.ports[listener].number}"

    def format(self, cluster_id: str) -> None:
        """Makes the data folder, as Kafka's StorageTool does, which takes a second for it."""
        shutil.copytree(new_data(self.release), self.data)
        names = {"version": 1, "cluster.id": cluster_id, "node.id": self.properties["node.id"]}
        (self.data / "meta.properties").write_text(_text({**names, "directory.id": new_id()}))

    def begin(self, *options: str) -> None:
        """Starts the process; `ready` waits for it. `options`: of the JVM."""
        options = options or (f"-XX:SharedArchiveFile={classes(self.release)}",)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*java(self.release, "-Xmx384m", "-Xms128m", *options), "kafka.Kafka", self._configuration()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the process that started it
            )
        # Its input ends with this process, even if this one is killed. (Linux's PR_SET_PDEATHSIG would end the broker
        # with the *thread* that started it.)
        self._guard = subprocess.Popen(
            [
                "sh",
                "-c",
                'cat; kill -KILL "$0"; sleep 0.2; rm -rf "$1"',
                str(self._process.pid),
                str(self.folder.parent),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def ready(self) -> None:
        """Waits until it takes connections. Raises BrokerDied."""
        deadline = time.monotonic() + 90
        while not all(listens(port.number) for port in self.ports.values()):
            self.check()
            if time.monotonic() > deadline:
                raise BrokerDied(f"broker {self.release} takes no connections after 90 s: {self.last_words()}")
            time.sleep(0.05)

    def state(self) -> str:
        """`up`, `stopped` (by us) or `dead`, with its exit code."""
        if self._process is None:
            return "stopped"
        code = self._process.poll()
        return "up" if code is None else f"dead, exit code {code}"

    def check(self) -> None:
        """Raises BrokerDied if it is not up."""
        if self.state() != "up":
            raise BrokerDied(f"broker {self.release} is {self.state()}: {self.last_words()}")

    def last_words(self) -> str:
        """The end of its log."""
        return (
            f"{self.log}:\n{self.log.read_text(errors='replace')[-6000:]}" if self.log.is_file() else "it left no log"
        )

    def start(self) -> None:
        self.begin()
        self.ready()

    def stop(self) -> None:
        """Lets it shut down in order; members stay members of their groups."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def restart(self, properties: Mapping[str, str] | None = None) -> None:
        """Stops and starts it, with these properties changed from now on."""
        self.stop()
        self.properties.update(properties or {})
        self.start()

    def _end(self, how: signal.Signals) -> None:
        process, guard = self._process, self._guard
        self._process = self._guard = None
        if process is not None:
            process.send_signal(how)
            try:
                process.wait(90)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if guard is not None:
            assert guard.stdin is not None
            guard.kill()
            guard.stdin.close()
            guard.wait()

    def _configuration(self) -> str:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "server.properties"
        file.write_text(_text(self.properties))
        return str(file)


class Brokers:
    """A cluster of `nodes` brokers with ids 1, 2, ...; node 1 is also its controller. A context manager.

    `properties` go to every node. Raises BrokerDied when it does not start.
    """

    running: ClassVar[list[Brokers]] = []

    def __init__(
        self,
        release: str,
        folder: Path,
        properties: Mapping[str, str] | None = None,
        *,
        nodes: int = 1,
        security: Security | None = None,
    ) -> None:
        self.release, self.folder, self.security = release, folder, security
        self.cluster_id = new_id()
        self.certificates = Certificates(folder / "certificates") if security else None
        listeners = ("PLAINTEXT", *(security.listeners if security else ()))
        controller = Port()
        self.nodes = []
        for number in range(1, nodes + 1):
            ports = {name: Port() for name in listeners}
            if number == 1:
                ports["CONTROLLER"] = controller
            own = self._properties(number, nodes, ports, controller)
            self.nodes.append(Broker(release, folder / f"node-{number}", {**own, **(properties or {})}, ports))

    @property
    def address(self) -> str:
        """Bootstrap servers of the listener without TLS and password."""
        return self.addresses("PLAINTEXT")

    @property
    def broker(self) -> Broker:
        """The only one."""
        (only,) = self.nodes
        return only

    def addresses(self, listener: str) -> str:
        return ",".join(node.address(listener) for node in self.nodes)

    def check(self) -> None:
        """Raises BrokerDied, with the end of its log, if a node is not up."""
        for node in self.nodes:
            node.check()

    def begin(self) -> Self:
        """Starts the processes of all nodes; entering the context waits for them."""
        for node in self.nodes:
            node.format(self.cluster_id)
            node.begin()
        return self

    def __enter__(self) -> Self:
        try:
            if not any(node.data.exists() for node in self.nodes):
                self.begin()
            for node in self.nodes:
                node.ready()
            self._make_users()
        except BaseException:
            self.close()
            raise
        self.running.append(self)
        return self

    def _make_users(self) -> None:
        """Those of SCRAM."""
        users = self.security.users if self.security else {}
        changes = [
            UserScramCredentialUpsertion(name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), word.encode())
            for name, word in users.items()
        ]
        if changes:
            admin = AdminClient({"bootstrap.servers": self.address})
            for made in admin.alter_user_scram_credentials(changes).values():
                made.result(30)
            until(
                "the broker knows its users",
                lambda: admin.describe_user_scram_credentials().result(30).keys() >= users.keys(),
            )

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all nodes and removes what they wrote."""
        if self in self.running:
            self.running.remove(self)
        for node in reversed(self.nodes):
            node.kill()
        for node in self.nodes:
            for port in node.ports.values():
                port.release()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _properties(self, node: int, nodes: int, ports: Mapping[str, Port], controller: Port) -> dict[str, str]:
        replicas = str(nodes)
        listeners = {name: f"{name}://{HOST}:{port.number}" for name, port in ports.items()}
        protocols = {name: "PLAINTEXT" if name == "CONTROLLER" else name for name in [*listeners, "CONTROLLER"]}
        return {
            **SMALL,
            **QUICK,
            **{
                f"{topic}.replication.factor": replicas
                for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
            },
            **{f"{topic}.min.isr": "1" for topic in ("transaction.state.log", "share.coordinator.state.topic")},
            "process.roles": "broker,controller" if node == 1 else "broker",
            "node.id": str(node),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{HOST}:{controller.number}",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(each for name, each in listeners.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
            "log.dirs": str(self.folder / f"node-{node}" / "data"),
            **self._secured(),
        }

    def _secured(self) -> dict[str, str]:
        if self.security is None or self.certificates is None:
            return {}
        modules = "org.apache.kafka.common.security"
        users = " ".join(f'user_{name}="{password}"' for name, password in self.security.users.items())
        properties = {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
            **{
                f"listener.name.{listener.lower()}.{mechanism}.sasl.jaas.config": f"{modules}.{module} required{more};"
                for listener in self.security.listeners
                if listener.startswith("SASL")
                for mechanism, module, more in (
                    ("scram-sha-512", "scram.ScramLoginModule", ""),
                    ("plain", "plain.PlainLoginModule", f" {users}"),
                )
            },
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
        }
        if self.security.acls:
            properties["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            properties["super.users"] = "User:ANONYMOUS"
        return properties


def until(what: str, condition: Callable[[], object]) -> None:
    """Waits for it. Raises AssertionError when it does not come."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not after 300 s"
        time.sleep(0.05)
