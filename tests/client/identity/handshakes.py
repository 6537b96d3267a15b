"""TLS handshakes in memory, with the standard library of any Python.

As a program it takes a directory of certificates and the names of authorities
and chains in it (``AUTHORITY:CHAIN``). It prints, for each pair, whether a
client, and whether a server, with that authority trusts that chain.
"""

import json
import ssl
import sys
from pathlib import Path

from controller_manager.client.identity.trust import set_verify_flags


def is_trusted(client: ssl.SSLContext, server: ssl.SSLContext) -> bool:
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
            ends.remove(end)
    return not ends


def holder(purpose: int, directory: Path, chain: str) -> ssl.SSLContext:
    context = ssl.SSLContext(purpose)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(directory / f"{chain}.pem")
    return context


def both(directory: Path, authority: str, chain: str) -> tuple[bool, bool]:
    """Tell whether a client, and whether a server, trusts a chain."""
    file = directory / f"{authority}.pem"
    client = ssl.create_default_context(cafile=file)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=file)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(directory / f"{chain}.pem")
    for each in (client, server):
        set_verify_flags(each)
    return (
        is_trusted(client, holder(ssl.PROTOCOL_TLS_SERVER, directory, chain)),
        is_trusted(holder(ssl.PROTOCOL_TLS_CLIENT, directory, chain), server),
    )


if __name__ == "__main__":
    where = Path(sys.argv[1])
    pairs = [each.split(":") for each in sys.argv[2:]]
    sys.stdout.write(json.dumps([both(where, *pair) for pair in pairs]))
