"""What the namespace controller promises."""

from tests.simulation.changes import only
from tests.simulation.properties import May, Properties


class NamespaceProperties(Properties):
    """It deletes the objects in a namespace, and reports what remains in its status."""

    controller = "namespace-controller"
    may_write = (
        May(("delete", "deletecollection"), "*"),
        May(("update",), "namespaces/status", only(("status",))),
        May(("update",), "namespaces/finalize", only(("spec", "finalizers"))),
    )


PROPERTIES = NamespaceProperties
