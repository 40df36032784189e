"""A broker by hand: `python -m tests.broker.serve --kafka 4.3.1` prints its addresses and runs until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path

from tests.broker.brokers import Brokers, Security
from tests.broker.jars import MODULES


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kafka", choices=sorted(MODULES), default="4.3.1", help="its release")
    options.add_argument("--nodes", type=int, choices=(1, 2), default=1)
    options.add_argument("--secure", action="store_true", help="listeners SASL_SSL, SSL and ACLs, user auditor")
    options.add_argument("--property", action="append", default=[], metavar="NAME=VALUE", help="of the brokers")
    chosen = options.parse_args()
    properties = dict(each.split("=", 1) for each in chosen.property)
    security = Security(acls=True) if chosen.secure else None
    folder = Path(tempfile.mkdtemp(prefix="kgroups-broker-"))
    brokers = Brokers(chosen.kafka, folder, properties, nodes=chosen.nodes, security=security)
    began = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt), brokers:
        say(f"Kafka {chosen.kafka}, cluster {brokers.cluster_id}, up after {time.monotonic() - began:.1f} s")
        for listener in ("PLAINTEXT", *(security.listeners if security else ())):
            say(f"{listener} {brokers.addresses(listener)}")
        if security is not None and brokers.certificates is not None:
            say(f"users {dict(security.users)}, certificates in {brokers.certificates.authority.parent}")
        for node in brokers.nodes:
            say(f"data in {node.data}, its own log is {node.log}")
        while True:
            time.sleep(1)
            brokers.check()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
