"""The rate of TLS handshakes: per peer, and of all peers together.

A handshake costs the server a signature. One peer that opened connections as fast as
it could took half of the core on which all controllers run. Upstream has no such limit:
its handshakes run on other cores.
"""

import ipaddress
from collections import OrderedDict
from typing import Final

from controller_manager.clock import Clock
from controller_manager.serving.limits import ConnectionLimits
from controller_manager.serving.local_peers import address_of
from controller_manager.workqueue.ratelimiters import TokenBucket

_NETWORK_BITS: Final = 64
"""One machine may use all addresses of an IPv6 network of this size."""

_LOOPBACK: Final = ipaddress.ip_network("127.0.0.0/8")
_FIRST_LOOPBACK: Final = ipaddress.IPv4Address("127.0.0.1")
"""The only address of its network that programs use unless they want another one."""


class TooManyHandshakes(Exception):  # noqa: N818 - an answer, not an error
    """The peer, or all peers together, would wait too long for a handshake."""


class HandshakeLimiter:
    """Says when the handshake of a new connection may begin.

    Each peer has its own rate. A peer that begins too many handshakes delays only
    itself: it may take no more of the common rate than its own rate. Peers are
    forgotten once they may do as many handshakes at once as a new one.

    A local peer has its own rate only. There are no more of them than addresses of this
    machine: 127.0.0.1 is one peer, all other addresses of its network are another one.
    """

    def __init__(self, limits: ConnectionLimits, clock: Clock) -> None:
        """Take the rates and the longest wait from `limits`."""
        self._limits = limits
        self._clock = clock
        self._all = TokenBucket(
            limits.all_handshakes, round(limits.handshake_burst * 2), clock
        )
        self._peers: OrderedDict[str, tuple[TokenBucket, float]] = OrderedDict()

    @property
    def peers(self) -> int:
        """The number of peers that are remembered."""
        return len(self._peers)

    def admit(self, address: str, *, is_local: bool = False) -> float:
        """Count a connection from an IP address.

        Return the seconds to wait before `admit_to_all`, or before the handshake of a
        local peer; raises TooManyHandshakes if they would be too many.
        """
        self._forget()
        peer = _peer(address, is_local=is_local)
        bucket, _ = self._peers.get(peer, (None, 0.0))
        if bucket is None:
            bucket = TokenBucket(
                self._limits.peer_handshakes, self._limits.handshake_burst, self._clock
            )
        seconds = self._reserve(bucket)
        self._peers[peer] = (bucket, self._full_at(seconds))
        self._peers.move_to_end(peer)
        return seconds

    def admit_to_all(self) -> float:
        """Count a handshake that its peer may begin; return the seconds to wait.

        Raises TooManyHandshakes if they would be too many.
        """
        return self._reserve(self._all)

    def _reserve(self, bucket: TokenBucket) -> float:
        if bucket.next_in() > self._limits.handshake_wait:
            raise TooManyHandshakes
        return bucket.reserve()

    def _full_at(self, wait: float) -> float:
        """Return when a bucket is surely full again, on the clock."""
        refill = self._limits.handshake_burst / self._limits.peer_handshakes
        return self._clock.monotonic() + wait + refill

    def _forget(self) -> None:
        now = self._clock.monotonic()
        while self._peers:
            peer, (_, full_at) = next(iter(self._peers.items()))
            if full_at > now:
                return
            del self._peers[peer]


def _peer(address: str, *, is_local: bool) -> str:
    """Return the address of one machine: its IPv4 address, or its IPv6 network.

    A local peer is one address: others of its IPv6 network are other machines.
    """
    found = address_of(address.partition("%")[0])
    if found in _LOOPBACK and found != _FIRST_LOOPBACK:
        return str(_LOOPBACK)
    if is_local or isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(ipaddress.ip_network((found, _NETWORK_BITS), strict=False))
