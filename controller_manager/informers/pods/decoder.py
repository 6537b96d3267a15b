"""The decoder of the watch of pods: it decodes no spec that is known by its bytes."""

import os
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from controller_manager.api.core.v1 import Pod, PodSpec
from controller_manager.client.rest.watch import EventDecoder, WatchEvent

from .specs import SPEC, SharedSpecs

_STATUS: Final = b',"status":{'


class PodEventDecoder(EventDecoder[Pod]):
    """Decodes the lines of a watch of pods, whose specs are shared.

    A short spec takes the place of the long one before the line is decoded. It has a
    secret text, so that no other spec is taken for it: pods have fields, such as
    managedFields, in which another field may be called spec. A line for which this
    fails in any way is decoded as a whole, so errors are the same.
    """

    def __init__(self, specs: SharedSpecs) -> None:
        """Take the specs that pods share."""
        super().__init__(Pod)
        self._specs = specs
        self._mark = os.urandom(8).hex()
        self._marked = SPEC + b'"hostname":"%b"}' % self._mark.encode()

    def decode(self, line: bytes) -> WatchEvent[Pod]:
        """Return the event of one line; see `EventDecoder.decode`."""
        start, end = line.find(SPEC), line.rfind(_STATUS)
        if 0 < start < end:
            spec = self._specs.find(line[start:end])
            if spec is not None:
                marked = b"%b%b%b" % (line[:start], self._marked, line[end:])
                event = self._with_spec(marked, spec)
                if event is not None:
                    return event
        return super().decode(line)

    def _with_spec(self, marked: bytes, spec: PodSpec) -> WatchEvent[Pod] | None:
        """Return the event of a line, with this spec in the place of the mark.

        `None` if the mark is not in the place of the pod's spec.
        """
        try:
            event = self.decode_object(marked)
        except msgspec.DecodeError:
            return None
        if event.object.spec.hostname != self._mark:
            return None
        force_setattr(event.object, "spec", spec)
        return event
