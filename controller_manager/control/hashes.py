"""The hash functions and the alphabet of generated names (FNV, SafeEncodeString)."""

from typing import Final

_OFFSET: Final = 2166136261
_PRIME: Final = 16777619
_MASK: Final = 0xFFFFFFFF
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


def fnv1(data: bytes) -> int:
    """Return the FNV-1 hash of `data`, 32 bits (Go: fnv.New32)."""
    value = _OFFSET
    for byte in data:
        value = ((value * _PRIME) & _MASK) ^ byte
    return value


def fnv1a(data: bytes) -> int:
    """Return the FNV-1a hash of `data`, 32 bits (Go: fnv.New32a)."""
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def safe_encode(value: int) -> str:
    """Return a number as a text that spells no word: an alphabet without vowels."""
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(value))
