"""What the namespace controller promises."""

from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties


class NamespaceProperties(Properties):
    """It deletes what is in a namespace, and says in its status what is left."""

    controller = "namespace-controller"
    may_write = (
        AllowedWrite(("delete", "deletecollection"), "*"),
        AllowedWrite(("update",), "namespaces/status", only(("status",))),
        AllowedWrite(("update",), "namespaces/finalize", only(("spec", "finalizers"))),
    )


PROPERTIES = NamespaceProperties
