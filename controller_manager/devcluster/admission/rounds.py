"""The two rounds of mutating plugins (webhook/mutating/reinvocationcontext.go)."""

from collections.abc import Hashable

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.admission import Write


class Rounds:
    """What a plugin needs to know in the second round about the first."""

    def __init__(self) -> None:
        """Begin the first round."""
        self._asked: set[Hashable] = set()
        self._again: set[Hashable] = set()
        self._output: JSON | None = None

    @classmethod
    def of(cls, write: Write, plugin: str) -> "Rounds":
        """Return the rounds of a plugin in an attempt to write.

        If others have changed the object since this plugin did, all that it asked
        before is asked again.
        """
        rounds: Rounds = write.notes.setdefault(plugin, cls())
        if write.is_again and rounds._output != write.obj:
            rounds._ask_again()
        return rounds

    def leaves_out(self, key: Hashable, write: Write) -> bool:
        """Tell whether a webhook or a policy is not asked in this round."""
        return write.is_again and key not in self._again

    def note(self, key: Hashable, write: Write, *, changed: bool, policy: str) -> None:
        """Note what one has done; `policy` is its reinvocationPolicy."""
        if changed:
            self._ask_again()
            write.wants_again = True
        if policy == "IfNeeded":
            self._asked.add(key)

    def end(self, write: Write) -> None:
        """End a round with the object as it is now."""
        self._output = write.obj

    def _ask_again(self) -> None:
        self._again |= self._asked
        self._asked = set()
