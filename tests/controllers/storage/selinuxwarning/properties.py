"""What the SELinux warning controller promises."""

from tests.simulation.properties import Properties


class SELinuxWarningProperties(Properties):
    """It writes nothing but events, and remembers no pod that is gone."""

    controller = "selinux-warning-controller"


PROPERTIES = SELinuxWarningProperties
