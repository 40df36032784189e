"""PKCS#12 stores, as keytool and openssl write them, as PEM texts."""

from __future__ import annotations

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12


def pem_of_pkcs12(content: bytes, password: str | None) -> str:
    """The store's certificates, that of the private key first, then the unencrypted key; a truststore has no key.

    Raises ValueError for a wrong password or for damage, which cannot be distinguished in such a store.
    """
    store = load_pkcs12(content, None if password is None else password.encode())
    found = [store.cert, *store.additional_certs]
    pem = b"".join(each.certificate.public_bytes(Encoding.PEM) for each in found if each is not None)
    if store.key is not None:
        pem += store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode("ascii")
