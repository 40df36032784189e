"""Blocks of PEM texts, as Kafka accepts them: in files with other text around, or on one line of a properties file.

OpenSSL needs separate lines for the marks and lines of 64 characters for the content, so blocks are returned like that.
"""

from __future__ import annotations

import re
import textwrap

BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


def certificates(text: str) -> list[str]:
    """The certificates of a PEM text, in order; those of other labels (TRUSTED CERTIFICATE) are left out."""
    return [_block(label, body) for label, body in BLOCK.findall(text) if label in ("CERTIFICATE", "X509 CERTIFICATE")]


def private_keys(text: str) -> list[str]:
    """The private keys of a PEM text. Kafka accepts only PKCS#8; OpenSSL accepts the older forms, too."""
    return [_block(label, body) for label, body in BLOCK.findall(text) if label.endswith("PRIVATE KEY")]


def is_encrypted(key: str) -> bool:
    return "BEGIN ENCRYPTED PRIVATE KEY" in key or "Proc-Type: 4,ENCRYPTED" in key


def _block(label: str, body: str) -> str:
    if "Proc-Type:" in body:  # headers of the older encrypted form need separate lines
        lines = body.strip("\r\n").splitlines()
    else:
        lines = textwrap.wrap("".join(body.split()), 64)
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])
