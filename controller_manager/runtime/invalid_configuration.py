"""The error of a controller whose flags contradict each other.

It is a module of its own, because the options of controllers need it: the help and the
version must not import the parts that run controllers.
"""


class InvalidConfiguration(Exception):
    """The flags of a controller contradict each other.

    The text names the flag and the remedy. The daemon does not start.
    """
