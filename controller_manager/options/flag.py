"""What a flag is.

`path` is where a value stands in the configuration file and in /configz; what
upstream's configuration does not hold stands in a section of its own there.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

from controller_manager.options.checks import Check, at_least

FlagType = Literal[
    "bool",
    "int",
    "int32",
    "int32Slice",
    "float",
    "float32",
    "duration",
    "string",
    "strings",
    "ip",
    "namedCertKey",
    "quantity",
    "Level",
    "gates",
    "pairs",
]


_LISTS: Final = frozenset(("strings", "int32Slice", "namedCertKey", "gates", "pairs"))


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: `default` as a user would write it, `None` for an empty one.

    `inert` says why the flag is taken without an effect, empty if it has one. It
    has none either where all controllers that it is `used_by` are absent. `check`
    returns what is wrong with a value, empty for nothing.
    """

    name: str
    type: FlagType
    default: str | None
    help: str
    path: str = ""
    section: str = ""
    value_name: str = ""
    short: str = ""
    inert: str = ""
    used_by: tuple[str, ...] = ()
    check: Check | None = None

    @property
    def is_list(self) -> bool:
        """Whether giving it again adds to it rather than replacing it."""
        return self.type in _LISTS


_INITIALISMS: Final = {
    "api": "API",
    "ca": "CA",
    "http2": "HTTP2",
    "json": "JSON",
    "qps": "QPS",
    "sni": "SNI",
    "tls": "TLS",
    "ttl": "TTL",
    "uid": "UID",
}


def section(title: str, *flags: Flag) -> tuple[Flag, ...]:
    """Return flags in a section; one without a path gets one after its name.

    A section is named after a controller: ``Job-controller`` has the flags of
    job-controller, which are of no use without it.
    """
    controller = (title.lower(),) if title.endswith("-controller") else ()
    prefix = "".join(word.capitalize() for word in title.replace("-", " ").split())
    return tuple(
        replace(
            flag,
            section=title,
            used_by=flag.used_by or controller,
            path=flag.path or f"{prefix}.{_field_name(flag.name)}",
        )
        for flag in flags
    )


def _field_name(flag: str) -> str:
    return "".join(
        _INITIALISMS.get(word, word.capitalize()) for word in flag.split("-")
    )


def concurrency(name: str, default: int, path: str, what: str) -> Flag:
    """Return the flag for how many objects a controller syncs at a time."""
    return Flag(
        name,
        "int32",
        str(default),
        f"The number of {what} that are allowed to sync concurrently. Larger "
        "number = more responsive, but more CPU (and network) load.",
        path,
        check=at_least(1),
    )
