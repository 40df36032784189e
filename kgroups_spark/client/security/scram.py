"""The demands of a server on a client in SCRAM, as Kafka's Java client has it (ScramSaslClient, ScramMechanism 4.3.1).

kafka-python's client takes one iteration, no salt and no nonce of the server: whoever plays a broker would get a proof
that is guessed thousands of times faster.
"""

from __future__ import annotations

LEAST_ITERATIONS = 4096


def require_strong(client_first: bytes, server_first: bytes) -> None:
    """Raises ValueError with what is too weak in the server's first message (RFC 5802 section 5.1).

    A message without these attributes is left to the mechanism, which refuses it.
    """
    sent, reported = _attributes(client_first), _attributes(server_first)
    iterations, nonce = reported.get(b"i", b""), reported.get(b"r", b"")
    if iterations.isdigit() and int(iterations[:9]) < LEAST_ITERATIONS:
        raise ValueError(f"it asks for {int(iterations[:9])} iterations, fewer than {LEAST_ITERATIONS}")
    if nonce and (not nonce.startswith(sent.get(b"r", b"")) or nonce == sent.get(b"r")):
        raise ValueError("it adds nothing to our nonce")
    if reported.get(b"s") == b"":
        raise ValueError("it has no salt")


def _attributes(message: bytes) -> dict[bytes, bytes]:
    return {part[:1]: part[2:] for part in message.split(b",") if part[1:2] == b"="}
