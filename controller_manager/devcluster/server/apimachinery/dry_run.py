"""The parameter dryRun."""

from controller_manager.devcluster.server.apimachinery.statuses import (
    invalid_object,
    not_supported,
    shown,
)


def asks_for_dry_run(value: str | list[str] | None) -> bool:
    """Tell whether dryRun is All; raises Refusal for any other value."""
    if value in (None, "", []):
        return False
    if value in ("All", ["All"]):
        return True
    cause = not_supported("dryRun", shown(value), ("All",))
    raise invalid_object("meta.k8s.io", "Options", "", [cause])
