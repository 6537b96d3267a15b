"""What the service account controller promises."""

from tests.simulation.properties import May, Properties


class ServiceAccountProperties(Properties):
    """It creates accounts; it changes and deletes none."""

    controller = "serviceaccount-controller"
    may_write = (May(("create",), "serviceaccounts"),)


PROPERTIES = ServiceAccountProperties
