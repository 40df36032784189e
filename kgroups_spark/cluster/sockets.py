"""A socket to a broker, with TLS or without, and the reason of its failure in words."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Iterable, Mapping
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest

from kgroups_spark.client.properties import SOCKET_OPTIONS
from kgroups_spark.cluster.errors import AuthenticationFailed, WrongProtocol

Address = tuple[str, int]


class Disconnected(Exception):
    """The connection could not be opened, or broke: a retry may help. The text has the reason."""


class UnknownHost(Disconnected):
    """The name does not resolve."""


def connected(address: Address, settings: Mapping[str, Any], deadline: float) -> socket.socket:
    """A socket to that place, with TLS if security.protocol has it. `settings`: see ClientProperties; `deadline`: by
    time.monotonic(). Raises Disconnected, AuthenticationFailed, WrongProtocol."""
    plain = _plain_socket(address, settings.get("socket_options", SOCKET_OPTIONS), deadline)
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
        if _answers_in_plain(address, seconds_until(deadline)):
            raise WrongProtocol(
                f"{place_of(address)} speaks Kafka's protocol without TLS: security.protocol has to be "
                "PLAINTEXT or SASL_PLAINTEXT there"
            ) from err
        if is_tls_alert(err):
            raise refused_tls(address, err) from err
        raise Disconnected(f"the TLS handshake with {place_of(address)} failed: {in_words(err)}") from err
    finally:
        # wrap_socket has taken the descriptor over, or has left it to us.
        plain.close()
    return secured


def _answers_in_plain(address: Address, timeout: float) -> bool:
    """Whether a port answers ApiVersions (version 0) without TLS: a length, then the correlation id of the request."""
    correlation_id = 1
    request = struct.pack(">ihhih", 10, ApiVersionsRequest.API_KEY, 0, correlation_id, -1)
    try:
        with socket.create_connection(address, timeout) as plain:
            plain.sendall(request)
            return plain.recv(8, socket.MSG_WAITALL)[4:] == correlation_id.to_bytes(4, "big")
    except OSError:
        return False


def _plain_socket(address: Address, options: Iterable[tuple[int, int, int]], deadline: float) -> socket.socket:
    """Connected; options are set before, as the size of the receive buffer has to be. Raises Disconnected."""
    try:
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    except (ValueError, OverflowError) as err:  # UnicodeError is a ValueError
        raise UnknownHost(f"{place_of(address)!r} is not an address: {err}") from err
    except socket.gaierror as err:
        kind = UnknownHost if err.errno == socket.EAI_NONAME else Disconnected
        raise kind(f"the name {address[0]} does not resolve ({err.strerror})") from err
    failures: list[OSError] = []
    for number, (family, kind_of, protocol, _, place) in enumerate(found):
        try:
            plain = socket.socket(family, kind_of, protocol)
        except OSError as err:  # this machine has no IPv6
            failures.append(err)
            continue
        try:
            for option in options:
                plain.setsockopt(*option)
            # An address that drops packets leaves time for the others.
            plain.settimeout(seconds_until(deadline) / (len(found) - number))
            plain.connect(place)
            # On one machine a connection to a port without a listener can connect to itself.
            if plain.getsockname() != plain.getpeername():
                return plain
            failures.append(ConnectionRefusedError())
        except OSError as err:
            failures.append(err)
        plain.close()
    raise Disconnected(_why_not(address, failures[0])) from failures[0]


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


def refused_tls(address: Address, err: OSError) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"{place_of(address)} rejected our side of the TLS handshake ({in_words(err)}): it may require a client "
        "certificate (ssl.keystore.location), or a different one"
    )


# OpenSSL's X509_V_ERR_*: not yet valid; expired; not for this host name, not for this IP address.
NOT_YET_VALID, EXPIRED, WRONG_NAME = 9, 10, (62, 64)


def untrusted(address: Address, err: ssl.SSLCertVerificationError) -> AuthenticationFailed:
    """Advice about a certificate that is refused."""
    start = f"the certificate of {place_of(address)} is not trusted: {err.verify_message}"
    if err.verify_code == NOT_YET_VALID:
        return AuthenticationFailed(f"{start}: its time has not begun, or this machine's clock is late")
    if err.verify_code == EXPIRED:
        return AuthenticationFailed(
            f"{start}; renew it, or the expired certificate in its chain, unless this machine's clock is wrong"
        )
    if err.verify_code in WRONG_NAME:
        return AuthenticationFailed(f"{start}; use a broker name that is in its certificate")
    return AuthenticationFailed(f"{start}; ssl.truststore.location must have the authority that signed it")


def in_words(err: OSError) -> str:
    """The error in words: OpenSSL's SSLV3_ALERT_BAD_CERTIFICATE as "sslv3 alert bad certificate"."""
    if isinstance(err, ssl.SSLEOFError):
        return "it was closed"
    reason = getattr(err, "reason", None) or err.strerror or str(err)
    return str(reason).replace("_", " ").lower()
