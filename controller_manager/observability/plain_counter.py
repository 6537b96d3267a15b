"""Counters whose names do not end in ``_total``, as some of upstream's."""

from collections.abc import Iterable

from prometheus_client import Counter
from prometheus_client.samples import Sample


class PlainCounter(Counter):
    """A counter with exactly the given name; ``Counter`` would append ``_total``."""

    def _child_samples(self) -> Iterable[Sample]:
        """Return the count of one series; the suffix of its name comes first."""
        count, *_ = super()._child_samples()
        return [count._replace(name="")]
