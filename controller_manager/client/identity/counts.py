"""Counts of connections that no request shows, for metrics."""

from collections import Counter

from msgspec import Struct, field

Label = tuple[str, str]
Labelled = Counter[Label]


class ConnectionCounts(Struct):
    """Counts since the start.

    - `plugin_calls`: calls of exec plugins, by exit code and status (client-go's
      ExecPluginCalls).
    - `reloads`: times that the file of the API server's authorities was read again, by
      result and reason (client-go's TransportCAReloads).
    """

    plugin_calls: Labelled = field(default_factory=Counter)
    reloads: Labelled = field(default_factory=Counter)

    def plus(self, other: "ConnectionCounts") -> "ConnectionCounts":
        """Return the sums."""
        return ConnectionCounts(
            self.plugin_calls + other.plugin_calls, self.reloads + other.reloads
        )
