"""SELinux labels as far as pods say them (translator/selinux_translator.go).

The defaults are on the nodes, where this process cannot read them.
"""

from itertools import zip_longest

from controller_manager.api.core.v1 import SELinuxOptions


def label_of(options: SELinuxOptions) -> str:
    """Return ``user:role:type:level``, parts that are not set empty; "" if none is."""
    parts = (options.user, options.role, options.type, options.level)
    return ":".join(parts) if any(parts) else ""


def conflicts(one: str, other: str) -> bool:
    """Tell whether two labels differ in a part that both have.

    A part that is not set gets the default of the node, which may be the other one.
    The level is the last part, and may have colons itself.
    """
    parts = zip_longest(one.split(":", 3), other.split(":", 3), fillvalue="")
    return any(a != b and a and b for a, b in parts)
