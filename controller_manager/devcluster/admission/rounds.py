"""The two rounds of mutating plugins (webhook/mutating/reinvocationcontext.go)."""

from collections.abc import Hashable

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.rest.admission import Write


class Rounds:
    """The data of a plugin's first round that its second round needs."""

    def __init__(self) -> None:
        self._asked: set[Hashable] = set()
        self._again: set[Hashable] = set()
        self._output: JSON | None = None

    @classmethod
    def of(cls, write: Write, plugin: str) -> "Rounds":
        """Return the rounds of a plugin in an attempt to write.

        If other plugins have changed the object since then, this plugin repeats all its
        webhooks or policies of the first round.
        """
        rounds: Rounds = write.notes.setdefault(plugin, cls())
        if write.is_again and rounds._output != write.obj:
            rounds._ask_again()
        return rounds

    def leaves_out(self, key: Hashable, write: Write) -> bool:
        """Tell whether this round skips a webhook or a policy."""
        return write.is_again and key not in self._again

    def note(self, key: Hashable, write: Write, *, changed: bool, policy: str) -> None:
        """Record a webhook or policy; `policy` is its reinvocationPolicy."""
        if changed:
            self._ask_again()
            write.wants_again = True
        if policy == "IfNeeded":
            self._asked.add(key)

    def end(self, write: Write) -> None:
        """End a round with the present object."""
        self._output = write.obj

    def _ask_again(self) -> None:
        self._again |= self._asked
        self._asked = set()
