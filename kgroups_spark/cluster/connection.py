"""One connection to one broker: a request, then its answer.

kafka-python's schema engine writes and reads the messages, its SASL mechanisms authenticate. Its connections were tried
(3.0.12) and are not used: they lose an answer after which the broker closes at once, and then repeat a wrong password,
which locks accounts; a TLS handshake has no time limit; Ctrl-C is taken for a broken connection; of a name's addresses
only the first is tried when it drops packets. And received bytes cost twice the CPU.

Kafka's protocol: a frame is its length i32, then a header (correlation id i32, tagged fields in newer versions), then
the message. ApiVersions, which exchanges both sides' versions, is followed by SASL if the listener requires it.
"""

from __future__ import annotations

import io
import random
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kafka.errors import IncompatibleBrokerVersion
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kafka.version import __version__

from kgroups_spark.cluster.client_properties import SOCKET_OPTIONS
from kgroups_spark.cluster.requests import (
    KafkaRefused,
    Throttled,
    error_name,
)
from kgroups_spark.cluster.sasl import require_strong
from kgroups_spark.errors import KgroupsError

# A socket to a broker, with TLS or without, and the reason of its failure in words.


Address = tuple[str, int]


class Disconnected(Exception):
    """The connection could not be opened, or broke: a retry may help. The text has the reason."""


class UnknownHost(Disconnected):
    """The name does not resolve."""


def connected(address: Address, settings: Mapping[str, Any], deadline: float) -> socket.socket:
    """A socket to that place, with TLS if security.protocol has it. `settings`: see ClientProperties; `deadline`: by
    time.monotonic(). Raises Disconnected, KgroupsError."""
    plain = _plain_socket(address, deadline)
    if not str(settings.get("security_protocol")).endswith("SSL"):
        return plain
    return _with_tls(plain, address, settings, deadline)


def _with_tls(plain: socket.socket, address: Address, settings: Mapping[str, Any], deadline: float) -> socket.socket:
    context = settings.get("ssl_context") or ssl.create_default_context()
    try:
        plain.settimeout(seconds_until(deadline))
        secured: socket.socket = context.wrap_socket(plain, server_hostname=address[0].rstrip("."))
    except ssl.SSLCertVerificationError as err:
        raise untrusted(address, err) from err
    except TimeoutError as err:
        raise Disconnected(f"{place_of(address)} does not answer in the TLS handshake") from err
    except OSError as err:
        if is_tls_alert(err):
            raise refused_tls(address, err) from err
        raise Disconnected(f"the TLS handshake with {place_of(address)} failed: {in_words(err)}") from err
    finally:
        # wrap_socket has taken the descriptor over, or has left it to us.
        plain.close()
    return secured


def _plain_socket(address: Address, deadline: float) -> socket.socket:
    """Connected, to the first of the name's addresses that answers; each has the time until the deadline. Raises
    Disconnected."""
    try:
        plain = socket.create_connection(address, seconds_until(deadline))
    except (ValueError, OverflowError) as err:  # UnicodeError is a ValueError
        raise UnknownHost(f"{place_of(address)!r} is not an address: {err}") from err
    except socket.gaierror as err:
        kind = UnknownHost if err.errno == socket.EAI_NONAME else Disconnected
        raise kind(f"the name {address[0]} does not resolve ({err.strerror})") from err
    except OSError as err:
        raise Disconnected(_why_not(address, err)) from err
    for option in SOCKET_OPTIONS:
        plain.setsockopt(*option)
    return plain


def seconds_until(deadline: float) -> float:
    """Seconds until the deadline, a little at least: 0 would mean not to wait, and never fail."""
    return max(deadline - time.monotonic(), 0.001)


def place_of(address: Address) -> str:
    """host:port; an IPv6 address is in brackets, as people type it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _why_not(address: Address, err: OSError) -> str:
    if isinstance(err, ConnectionRefusedError):
        return f"nothing listens at {place_of(address)}"
    if isinstance(err, TimeoutError):
        return f"{place_of(address)} does not answer"
    return f"{place_of(address)} cannot be reached: {err.strerror or err}"


def is_tls_alert(err: OSError) -> bool:
    return isinstance(err, ssl.SSLError) and "ALERT" in (err.reason or "")


def refused_tls(address: Address, err: OSError) -> KgroupsError:
    return KgroupsError(
        f"{place_of(address)} rejected our side of the TLS handshake ({in_words(err)}): it may require a client "
        "certificate (ssl.keystore.location), or a different one"
    )


def untrusted(address: Address, err: ssl.SSLCertVerificationError) -> KgroupsError:
    return KgroupsError(
        f"the certificate of {place_of(address)} is not trusted: {err.verify_message}; ssl.truststore.location must "
        "have the authority that signed it, the broker's name must be in it, and this machine's clock must be right"
    )


def in_words(err: OSError) -> str:
    """The error in words: OpenSSL's SSLV3_ALERT_BAD_CERTIFICATE as "sslv3 alert bad certificate"."""
    if isinstance(err, ssl.SSLEOFError):
        return "it was closed"
    return str(getattr(err, "reason", None) or err.strerror or err).replace("_", " ").lower()


SOFTWARE = "kgroups-spark-kafka-python"
# More than a batch can have (records.headers.LARGEST_BATCH), and less than the lengths that other protocols make of
# their first bytes: a TLS alert is 0x1503..., text is 0x20...... and above.
LARGEST_FRAME = 128 << 20
LARGEST_HEADER = 64  # bytes; brokers send no tagged fields in headers
TLS_ALERT, TLS_HANDSHAKE = 0x15, 0x16
IDLE = 9 * 60.0  # seconds: brokers close connections after 10 minutes without a request, unless configured otherwise
# KIP-368: the broker cuts the connection when the session ends; a new one is made before.
SESSION_SHARE = 0.85


class NoAnswerInTime(Disconnected):
    """A request was sent, and not answered, or not to the end."""


class BrokerConnection:
    """A connection that is open and authenticated. Not for several threads."""

    def __init__(self, address: Address, settings: Mapping[str, Any], timeout: float) -> None:
        """`settings`: see ClientProperties; `timeout` in seconds for all of it. Raises Disconnected, KgroupsError."""
        self.address = address
        is_sasl = str(settings.get("security_protocol")).startswith("SASL_")
        self._may_need_sasl = not is_sasl  # until the first answer after ApiVersions
        self._settings = settings
        self._correlation_id = 0
        self._ready_at = 0.0  # the broker throttles us until then; time.monotonic()
        self._session_ends_at: float | None = None
        self._used_at = time.monotonic()
        deadline = time.monotonic() + timeout
        self._socket = connected(address, settings, deadline)
        try:
            self.api_versions = self._negotiate(deadline)
            versions = {api.api_key: (api.min_version, api.max_version) for api in self.api_versions.api_keys}
            self.versions = BrokerVersionData(api_versions=versions)
            if is_sasl:
                self._authenticate(deadline)
        except BaseException:
            self.close()
            raise

    @property
    def has_expired(self) -> bool:
        """Whether the broker is about to end the session or to close a connection so long unused, or has."""
        now = time.monotonic()
        return now - self._used_at >= IDLE or (self._session_ends_at is not None and now >= self._session_ends_at)

    def send(self, request: Any, timeout: float, *, longest_throttle: float = 60.0) -> Any:
        """The answer, `timeout` seconds at most after the time for which the broker throttles us. Raises Disconnected,
        KafkaRefused (no common version of the request), Throttled (longer than `longest_throttle` seconds)."""
        throttled = max(0.0, self._ready_at - time.monotonic())
        if throttled > longest_throttle:
            raise Throttled(
                f"{self} throttles this client for {throttled:,.0f} s, longer than default.api.timeout.ms; a quota of "
                "this user or client.id may be exceeded, --max-bytes-per-second asks for less"
            )
        time.sleep(throttled)
        if request.API_VERSION is None:
            request.API_VERSION = self.version_of(request)
        try:
            response = self._exchange(request, time.monotonic() + timeout)
        except Disconnected:
            if self._may_need_sasl:
                self._require_no_sasl(timeout)
            raise
        self._may_need_sasl = False
        self._used_at = time.monotonic()
        # KIP-219: since 2.0 the broker answers first, and expects us to keep quiet.
        throttle_ms: int = getattr(response, "throttle_time_ms", 0) or 0
        self._ready_at = time.monotonic() + throttle_ms / 1000
        return response

    def version_of(self, request: Any) -> int:
        """The version to send; raises KafkaRefused if there is none."""
        try:
            version: int = self.versions.api_version(request)
        except IncompatibleBrokerVersion as err:
            if request.API_KEY in self.versions.api_versions:
                raise KafkaRefused(f"{self} is too old or too new for us: {err.args[0]}") from err
            raise KafkaRefused(f"{self} knows no {request.name}: is it a controller's port, not a broker's?") from err
        return version

    def close(self) -> None:
        self._socket.close()

    def __str__(self) -> str:
        return f"the broker at {place_of(self.address)}"

    def _negotiate(self, deadline: float) -> Any:
        """The answer to ApiVersions. A broker older than our version of the request reports its own (KIP-511)."""
        version: int = ApiVersionsRequest.max_version
        while True:
            response = self._exchange(api_versions_request(version), deadline)
            error = error_name(response.error_code)
            if error is None:
                return response
            theirs = [api.max_version for api in response.api_keys if api.api_key == ApiVersionsRequest.API_KEY]
            older = theirs[0] if theirs else 0
            if error != "UNSUPPORTED_VERSION" or older >= version:
                raise KafkaRefused(f"{self} answers ApiVersions with {error}")
            version = older

    def _authenticate(self, deadline: float) -> None:
        """SASL; raises KgroupsError with the broker's words."""
        name = self._settings["sasl_mechanism"]
        answer = self._exchange(SaslHandshakeRequest(version=1, mechanism=name), deadline)
        error = error_name(answer.error_code)
        if error == "ILLEGAL_SASL_STATE":
            tls = "SSL" if self._settings["security_protocol"] == "SASL_SSL" else "PLAINTEXT"
            raise KgroupsError(f"{self} has no SASL on this port: set security.protocol to {tls}")
        if error is not None:
            raise KgroupsError(
                f"{self} does not support sasl.mechanism {name} on this port; it has {', '.join(answer.mechanisms)}"
            )
        # Without the protocol the mechanism has nothing to warn of.
        config = {key: value for key, value in self._settings.items() if key != "security_protocol"}
        mechanism = get_sasl_mechanism(name)(host=self.address[0], **config)
        sent: list[bytes] = []
        while not mechanism.is_done():
            sent.append(mechanism.auth_bytes())
            request = SaslAuthenticateRequest(sent[-1])
            request.API_VERSION = self.version_of(request)
            answer = self._exchange(request, deadline)
            if error := error_name(answer.error_code):
                detail = f": {answer.error_message}" if answer.error_message else ""
                raise KgroupsError(f"{self} rejected our {name} credentials: {error}{detail}")
            if name.startswith("SCRAM-") and len(sent) == 1:
                self._require_strong_scram(name, sent[0], answer.auth_bytes)
            try:
                mechanism.receive(answer.auth_bytes)
            except (ValueError, KeyError) as err:
                raise KgroupsError(f"{self} did not prove with {name} that it knows the password") from err
        if not mechanism.is_authenticated():
            raise KgroupsError(f"{self} rejected our {name} credentials")
        if lifetime_ms := getattr(answer, "session_lifetime_ms", 0):
            self._session_ends_at = time.monotonic() + SESSION_SHARE * lifetime_ms / 1000

    def _require_strong_scram(self, name: str, sent: bytes, answer: bytes) -> None:
        try:
            require_strong(sent, answer)
        except ValueError as err:
            raise KgroupsError(
                f"{self} requests too weak a {name} handshake: {err}, which Kafka's own clients refuse; an attacker "
                "may be impersonating the broker to learn the password"
            ) from err

    def _require_no_sasl(self, timeout: float) -> None:
        """Raises KgroupsError if this is a port with SASL, which silently closes connections without it."""
        with suppress(Disconnected):
            probe = BrokerConnection(self.address, self._settings, timeout)
            try:
                request = SaslHandshakeRequest(version=1, mechanism="")
                answer = probe._exchange(request, time.monotonic() + timeout)
            finally:
                probe.close()
            if error_name(answer.error_code) != "ILLEGAL_SASL_STATE":
                with_sasl = "SASL_SSL" if isinstance(self._socket, ssl.SSLSocket) else "SASL_PLAINTEXT"
                raise KgroupsError(
                    f"{self} requires SASL on this port: set security.protocol to {with_sasl} and sasl.mechanism to "
                    f"one of {', '.join(answer.mechanisms)}"
                )

    def _exchange(self, request: Any, deadline: float) -> Any:
        """Sends a request whose version is set; the answer, decoded."""
        self._correlation_id += 1
        request.with_header(correlation_id=self._correlation_id, client_id=self._settings["client_id"])
        try:
            self._socket.settimeout(seconds_until(deadline))
            self._socket.sendall(request.encode(header=True, framed=True))
            frame = self._receive(deadline)
        except TimeoutError as err:
            raise NoAnswerInTime(f"{self} has not answered {request.name} in time") from err
        except OSError as err:
            if is_tls_alert(err):  # TLS 1.3 reports a missing client certificate only after the handshake
                raise refused_tls(self.address, err) from err
            raise Disconnected(f"the connection to {self} broke: {in_words(err)}") from err
        return self._decode(request, memoryview(frame))

    def _decode(self, request: Any, frame: memoryview) -> Any:
        response_class = request.header.get_response_class()
        head = io.BytesIO(frame[:LARGEST_HEADER])
        try:
            correlation_id = response_class.parse_header(head).correlation_id
            if correlation_id != self._correlation_id:
                raise Disconnected(f"{self} answered request {correlation_id}, not {self._correlation_id}")
            return response_class.decode(frame[head.tell() :])
        except Disconnected:
            raise
        except Exception as err:  # kafka-python's reading fails in many ways, assertions among them
            raise KgroupsError(f"{self} sent an invalid answer to {request.name}: {err}") from err

    def _receive(self, deadline: float) -> bytearray:
        """The next frame without its length."""
        prefix = self._exactly(4, deadline)
        size = int.from_bytes(prefix, "big", signed=True)
        if prefix[0] in (TLS_ALERT, TLS_HANDSHAKE) and prefix[1] == 3:
            raise KgroupsError(f"{place_of(self.address)} uses TLS: set security.protocol to SSL or SASL_SSL")
        if not 0 <= size <= LARGEST_FRAME:
            raise KgroupsError(f"{place_of(self.address)} does not use Kafka's protocol: it answered {bytes(prefix)!r}")
        return self._exactly(size, deadline)

    def _exactly(self, size: int, deadline: float) -> bytearray:
        buffer = bytearray(size)
        left = memoryview(buffer)
        while left:
            self._socket.settimeout(seconds_until(deadline))
            got = self._socket.recv_into(left)
            if not got:
                raise Disconnected(f"{self} closed the connection")
            left = left[got:]
        return buffer


def api_versions_request(version: int | None = None) -> Any:
    """Asks for a broker's versions and features, with the client's name (KIP-511)."""
    return ApiVersionsRequest(version=version, client_software_name=SOFTWARE, client_software_version=__version__)


# Retries for a limited time.


SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds
# Even the last attempt gets this time: a broker that answers at all needs less.
LEAST_TIME = 1.0


class Patience:
    """Time for attempts with pauses between them, each about twice the one before; begins when it is made."""

    def __init__(self, timeout_ms: float) -> None:
        self._began = time.monotonic()
        self._timeout = timeout_ms / 1000
        self._pause = SHORTEST_PAUSE

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def left(self, at_most: float) -> float:
        """Seconds that an attempt may take."""
        return min(max(self._timeout - self.elapsed, LEAST_TIME), at_most)

    @property
    def left_ms(self) -> float:
        """Milliseconds that are left for attempts."""
        return 1000 * max(self._timeout - self.elapsed, 0.0)

    def pause(self) -> bool:
        """Waits before the next attempt; False, and no wait: time is up."""
        left = self._timeout - self.elapsed
        if left <= 0:
            return False
        # Not all tasks at the same moment.
        time.sleep(min(self._pause * random.uniform(0.8, 1.2), left))
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return True
