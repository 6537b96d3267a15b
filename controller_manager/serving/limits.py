"""Limits of the HTTPS server: timeouts, and the number of connections."""

import resource
from dataclasses import dataclass
from typing import Final, Self

_MAX_CONNECTIONS: Final = 250
_SHARE_OF_FILES: Final = 4


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one server; times are in seconds.

    Upstream has 32 s for the handshake and again for the header, 90 s for an
    idle connection, 256 KiB for a body that no handler reads, and no limit for the
    number of connections.
    """

    handshake: float = 10.0
    """For the TLS handshake. Go's clients also stop after ten seconds."""

    header: float = 32.0
    """From the first byte of a request (or the handshake) to the end of its header."""

    body: float = 10.0
    """For a body that a handler reads; after the answer, for the rest of any body."""

    body_bytes: int = 256 * 1024
    """The maximum size of a body that a handler reads."""

    idle: float = 90.0
    """From an answer to the first byte of the next request."""

    stalled: float = 30.0
    """For a client to read a part of an answer that is being written."""

    closing: float = 2.0
    """For the peer to confirm the end of the TLS connection."""

    connections: int = _MAX_CONNECTIONS
    """The maximum number of connections, including handshakes."""

    @classmethod
    def for_this_process(cls) -> Self:
        """Return limits that leave three quarters of the file descriptors free.

        The soft limit of open files at the time of the call is used.
        """
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files == resource.RLIM_INFINITY:
            return cls()
        share = max(1, files // _SHARE_OF_FILES)
        return cls(connections=min(share, _MAX_CONNECTIONS))
