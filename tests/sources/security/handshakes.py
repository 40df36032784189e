"""Certificates for tests, and handshakes of a client with a TLS server of Python's in this process."""

from __future__ import annotations

import ssl
import tempfile
from contextlib import suppress
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
    version: str | None
    client: str | None  # name in the client's certificate; None: it showed none


def shake_hands(
    client: ssl.SSLContext, server: trustme.LeafCert, *, clients: trustme.CA | None = None, host: str = "localhost"
) -> Handshake:
    """The handshake as the server saw it. Raises ssl.SSLError of the side that refuses. `clients`: the authority of the
    client certificates that the server asks for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = client.wrap_bio(back, there, server_hostname=host)
    answers = context.wrap_bio(there, back, server_side=True)
    for side in (asks, answers) * 3:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    names: Any = dict(answers.getpeercert() or {}).get("subjectAltName", ())
    return Handshake(answers.version(), names[0][1] if names else None)


def file_with(text: str, folder: Path) -> str:
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".pem", delete=False) as file:
        file.write(text)
    return file.name
