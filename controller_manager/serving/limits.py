"""How long a peer of the HTTPS server may take, and how many there may be."""

import resource
from dataclasses import dataclass
from typing import Final, Self

_MOST_CONNECTIONS: Final = 250
_SHARE_OF_FILES: Final = 4


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one server; times are in seconds.

    Upstream has 32 s for the handshake and again for the header, 90 s for an
    idle connection, 256 KiB for a body that nobody reads, and no limit for the
    number of connections.
    """

    handshake: float = 10.0
    """For the TLS handshake. Go's clients give up after these ten seconds, too."""

    header: float = 32.0
    """From the first byte of a request (or the handshake) to its header's end."""

    body: float = 10.0
    """For the rest of a body that nobody reads, after the answer."""

    request_bytes: int = 256 * 1024
    """How many bytes of one request may come, header and body."""

    idle: float = 90.0
    """From an answer to the first byte of the next request."""

    stalled: float = 30.0
    """For a client to take some of an answer that waits for it."""

    closing: float = 2.0
    """For the peer to agree to the end of the TLS connection."""

    connections: int = _MOST_CONNECTIONS
    """How many connections there may be, handshakes included."""

    @classmethod
    def for_this_process(cls) -> Self:
        """Return limits that leave three quarters of the process's files free.

        What counts is the soft limit of open files at the time of the call.
        """
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files == resource.RLIM_INFINITY:
            return cls()
        share = max(1, files // _SHARE_OF_FILES)
        return cls(connections=min(share, _MOST_CONNECTIONS))
