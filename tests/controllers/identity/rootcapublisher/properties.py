"""Properties of the publisher of the root authority."""

from typing import Any, Final

from tests.simulation.changes import Path, only
from tests.simulation.properties import AllowedWrite, Properties

_DESCRIPTION: Final = ("metadata", "annotations", "kubernetes.io/description")


def _repairs(path: Path, old: Any, new: Any) -> bool:
    """Allow the authority and the description, which may be the first annotation."""
    if path == _DESCRIPTION[:2]:
        return old is None and set(new) == {_DESCRIPTION[2]}
    return only(("data",), _DESCRIPTION)(path, old, new)


class RootCAPublisherProperties(Properties):
    """It creates config maps, and repairs their data."""

    controller = "root-ca-certificate-publisher-controller"
    may_write = (
        AllowedWrite(("create",), "configmaps"),
        AllowedWrite(("update",), "configmaps", _repairs),
    )


PROPERTIES = RootCAPublisherProperties
