"""A certificate authority of its own for each test, with a broker's certificate and a client's, as PEM files."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key


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
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    # Kafka reads keys in PKCS#8 alone.
    pem = [key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]
    file.write_bytes(b"".join(pem + [each.bytes() for each in issued.cert_chain_pems]))
    return file
