"""The definition of a flag.

`path` is the place of its value in the configuration file and in /configz. A flag
that is not in upstream's configuration has a place in a section of its own.
"""

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from .checks import Check

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


class Flag(Struct, frozen=True):
    """One flag; `default` is in a user's notation, `None` for an empty value.

    A `hidden` flag always has its default: the command line does not offer it. `inert`
    says why the flag has no effect, empty if it has one. A flag has no effect,
    too, if this build lacks all controllers in `used_by`. A warning says so, but
    not for an `inert_upstream` one: kube-controller-manager ignores that as well, and
    the manifests of installers have it (kubeadm's has --cluster-name). `check` returns
    the problem with a value, empty if it is valid.
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
    inert_upstream: bool = False
    hidden: bool = False
    used_by: tuple[str, ...] = ()
    check: Check | None = None

    @property
    def is_list(self) -> bool:
        """True if a repeated flag adds values instead of replacing them."""
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
    """Return flags in a section; a flag without a path gets one from its name.

    A section may be named after a controller: ``Job-controller`` has the flags of
    job-controller, which have no effect without it. A flag may name another section:
    upstream keeps the flags of two controllers together.
    """
    controller = (title.lower(),) if title.endswith("-controller") else ()
    prefix = "".join(word.capitalize() for word in title.replace("-", " ").split())
    return tuple(
        replace(
            flag,
            section=flag.section or title,
            used_by=flag.used_by or controller,
            path=flag.path or f"{prefix}.{_field_name(flag.name)}",
        )
        for flag in flags
    )


def _field_name(flag: str) -> str:
    return "".join(
        _INITIALISMS.get(word, word.capitalize()) for word in flag.split("-")
    )
