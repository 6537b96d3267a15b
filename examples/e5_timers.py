"""Delete config maps when their time is up.

    python examples/e5_timers.py
    kubectl create configmap notes
    kubectl annotate configmap notes example.com/ttl=60

`Done(30)` looks at the object again after 30 seconds, if it does not change before. A
timer lives in memory only, and need not be stored: the time is computed from the object
each time, so a restart, or a change of the annotation, does no harm.
"""

from datetime import datetime

from controller_manager.sdk import (
    DONE,
    RECORD_EVENTS,
    WARNING,
    Descriptor,
    Done,
    For,
    Outcome,
    Reconciler,
    allow,
    core_v1,
    is_deleting,
    run,
)

TTL = "example.com/ttl"
"""The annotation: the seconds that a config map lives."""


def ttl_of(config_map: core_v1.ConfigMap) -> str | None:
    """Return the annotation, `None` if there is none."""
    return (config_map.metadata.annotations or {}).get(TTL)


class Timers(Reconciler[core_v1.ConfigMap]):
    """Deletes each config map that has the annotation, at its time."""

    watches = (For(core_v1.CONFIG_MAPS, when=lambda each: ttl_of(each) is not None),)

    async def reconcile(self, config_map: core_v1.ConfigMap) -> Outcome:
        """Delete the config map, or come back when its time is up."""
        ttl, created = ttl_of(config_map), config_map.metadata.creation_timestamp
        if ttl is None or created is None or is_deleting(config_map):
            return DONE
        if not ttl.isdecimal():
            message = f"{TTL} must be a number of seconds, it is {ttl!r}"
            about = (core_v1.CONFIG_MAPS, config_map)
            self.recorder.event(*about, WARNING, "InvalidTTL", message)
            return DONE
        # The creation time is the API server's: compare it with the server's clock.
        age = self.context.server_clock.now() - datetime.fromisoformat(created)
        if (left := int(ttl) - age.total_seconds()) > 0:
            return Done(left)
        # Exactly: not a later one of the same name, and not one that has just changed.
        await self.client.delete_exactly(
            core_v1.CONFIG_MAPS, config_map, same_version=True
        )
        return DONE


CONTROLLER = Descriptor(
    name="timers",
    load=Timers,
    permissions=(allow(core_v1.CONFIG_MAPS, "delete"), *RECORD_EVENTS),
)

if __name__ == "__main__":
    run(CONTROLLER)
