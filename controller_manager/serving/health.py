"""The texts of /healthz and its like (apiserver pkg/server/healthz)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

HealthCheck = Callable[[], str | None]
"""Returns what is wrong, `None` if nothing is."""


@dataclass(frozen=True, slots=True)
class Health:
    """The answer of a probe."""

    healthy: bool
    text: str


def probe(
    name: str,
    checks: Mapping[str, HealthCheck],
    *,
    verbose: bool,
    exclude: Sequence[str] = (),
) -> Health:
    """Run the checks of an endpoint (``healthz``) and say what came of them.

    A failing one is always shown with its reason, which upstream withholds.
    """
    if not checks:
        checks = {"ping": lambda: None}
    lines, failed = [], False
    for check, run in checks.items():
        if check in exclude:
            lines.append(f"[+]{check} excluded: ok")
        elif problem := run():
            failed = True
            lines.append(f"[-]{check} failed: {problem}")
        else:
            lines.append(f"[+]{check} ok")
    if unknown := sorted(set(exclude) - set(checks)):
        listed = ",".join(f'"{each}"' for each in unknown)
        lines.append(
            "warn: some health checks cannot be excluded: no matches for " + listed
        )
    if failed:
        return Health(healthy=False, text="\n".join([*lines, f"{name} check failed\n"]))
    if verbose:
        return Health(healthy=True, text="\n".join([*lines, f"{name} check passed\n"]))
    return Health(healthy=True, text="ok")
