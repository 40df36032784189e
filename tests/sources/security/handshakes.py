"""Certificates for tests, and handshakes of a client with a TLS server of Python's on this machine."""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


def private_key(leaf: trustme.LeafCert, password: str | None = None, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
    """PEM of a certificate's key, encrypted if there is a password."""
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    encryption: KeySerializationEncryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, form, encryption).decode()


def chain(leaf: trustme.LeafCert) -> str:
    """PEM of a certificate and of the intermediate ones that signed it."""
    return "".join(each.bytes().decode() for each in leaf.cert_chain_pems)


@dataclass(frozen=True)
class Handshake:
    version: str
    cipher: str
    client: str | None  # name in the client's certificate; None: it showed none


def shake_hands(
    client: ssl.SSLContext, server: trustme.LeafCert, *, clients: trustme.CA | None = None, host: str = "localhost"
) -> Handshake:
    """The handshake as the server saw it. Raises the client's ssl.SSLError. `clients`: the authority of the client
    certificates that the server asks for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    seen: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=_answer, args=(listener, context, seen))
        answering.start()
        try:
            with (
                socket.create_connection(listener.getsockname()) as plain,
                client.wrap_socket(plain, server_hostname=host) as connection,
            ):
                connection.recv(1)  # with TLS 1.3 the server refuses a certificate after the handshake
        finally:
            answering.join()
    return seen[0]  # type: ignore[no-any-return]


def _answer(listener: socket.socket, context: ssl.SSLContext, seen: list[Any]) -> None:
    plain, _ = listener.accept()
    with plain:
        try:
            with context.wrap_socket(plain, server_side=True) as connection:
                names = dict(connection.getpeercert() or {}).get("subjectAltName", ())
                cipher = connection.cipher()
                assert cipher
                client = str(names[0][1]) if names else None
                seen.append(Handshake(str(connection.version()), cipher[0], client))
                connection.sendall(b"x")
        except OSError:
            return  # the client says what is wrong


def file_with(text: str, folder: Path) -> str:
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".pem", delete=False) as file:
        file.write(text)
    return file.name
