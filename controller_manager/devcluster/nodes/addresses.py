"""The addresses of nodes and of pods."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.json_objects import JSON

IPV4: Final = "IPv4"
IPV6: Final = "IPv6"

_FIRST_NODE: Final = 2


def node_address(number: int) -> str:
    """Return the address of a node in the range 172.18.0.0/16, by its number."""
    high, low = divmod(number + _FIRST_NODE, 256)
    return f"172.18.{high}.{low}"


def pod_address(pod: JSON, family: str = IPV4) -> str:
    """Return the address of a pod, in 10.244.0.0/16 or fd00:10:244::/48."""
    number = int(pod["metadata"]["uid"].replace("-", "")[:8], 16)
    if family == IPV6:
        return f"fd00:10:244::{number >> 16:x}:{number & 0xFFFF:x}"
    return f"10.244.{number >> 8 & 255}.{number & 255}"


def families_of(ranges: Iterable[str]) -> tuple[str, ...]:
    """Return the families of ranges of addresses, in their order."""
    return tuple(IPV6 if ":" in each else IPV4 for each in ranges)
