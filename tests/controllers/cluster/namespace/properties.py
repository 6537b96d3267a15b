"""Properties of the namespace controller."""

from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties


class NamespaceProperties(Properties):
    """It deletes the objects in a namespace, and reports what remains in its status."""

    controller = "namespace-controller"
    may_write = (
        AllowedWrite(("delete", "deletecollection"), "*"),
        AllowedWrite(("update",), "namespaces/status", only(("status",))),
        AllowedWrite(("update",), "namespaces/finalize", only(("spec", "finalizers"))),
    )


PROPERTIES = NamespaceProperties
