"""The metrics of the controller."""

from typing import Final

from controller_manager.sdk import CollectorRegistry, Counter

_VERBS: Final = ("create", "update")


class SharedConfigMetrics:
    """The number of copies that were written."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the counter, with every verb at zero."""
        self._writes = Counter(
            "shared_config_writes_total",
            "Copies of the shared config map that were written, by verb",
            ["verb"],
            registry=registry,
        )
        for verb in _VERBS:
            self._writes.labels(verb)

    def wrote(self, verb: str) -> None:
        """Count one copy."""
        self._writes.labels(verb).inc()
