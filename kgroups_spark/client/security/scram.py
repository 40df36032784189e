"""Checks of a server's first SCRAM message, as in Kafka's Java client (ScramSaslClient, ScramMechanism 4.3.1).

kafka-python's client accepts one iteration, no salt and no nonce of the server: an attacker impersonating a broker
would get a proof that can be guessed thousands of times faster.
"""

from __future__ import annotations

import re

LEAST_ITERATIONS = 4096

# RFC 5802 section 7. kafka-python also reads `i=+1`, and decodes base64 with anything between, `s=!` as no salt.
_SERVER_FIRST = re.compile(
    rb"r=(?P<nonce>[!-+\--~]+)"
    rb",s=(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)"
    rb",i=(?P<iterations>[0-9]{1,9})"
    rb"(?:,(?![rsi]=)[A-Za-z]=[^,]+)*"
)


def require_strong(client_first: bytes, server_first: bytes) -> None:
    """Raises ValueError with the weakness of the server's first message (RFC 5802 section 5.1).

    An error (`e=`) is left to the mechanism, which sends no proof after it.
    """
    if server_first.startswith(b"e="):
        return
    message = _SERVER_FIRST.fullmatch(server_first)
    if message is None:
        raise ValueError("it is not such a message of RFC 5802")
    iterations, nonce, sent = int(message["iterations"]), message["nonce"], client_first.rpartition(b"r=")[2]
    if iterations < LEAST_ITERATIONS:
        raise ValueError(f"it requests {iterations} iterations, fewer than {LEAST_ITERATIONS}")
    if not nonce.startswith(sent) or nonce == sent:
        raise ValueError("it adds nothing to our nonce")
