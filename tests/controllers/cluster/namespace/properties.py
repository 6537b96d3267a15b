"""What the namespace controller promises."""

from tests.simulation.changes import only
from tests.simulation.properties import May, Properties


class NamespaceProperties(Properties):
    """It deletes what is in a namespace, and says in its status what is left."""

    controller = "namespace-controller"
    may_write = (
        May(("delete", "deletecollection"), "*"),
        May(("update",), "namespaces/status", only(("status",))),
        May(("update",), "namespaces/finalize", only(("spec", "finalizers"))),
    )


PROPERTIES = NamespaceProperties
