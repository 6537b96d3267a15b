"""Properties of the service account controller."""

from tests.simulation.properties import AllowedWrite, Properties


class ServiceAccountProperties(Properties):
    """It creates accounts; it changes and deletes none."""

    controller = "serviceaccount-controller"
    may_write = (AllowedWrite(("create",), "serviceaccounts"),)


PROPERTIES = ServiceAccountProperties
