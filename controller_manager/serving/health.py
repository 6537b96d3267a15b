"""The answers of /healthz, /livez and /readyz (apiserver pkg/server/healthz)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

HealthCheck = Callable[[], str | None]
"""Returns the problem, `None` for none."""


_WITHHELD: Final = "reason withheld"


@dataclass(frozen=True, slots=True)
class Health:
    """The answer to a probe, with and without the reasons of failing checks."""

    healthy: bool
    text: str
    without_reasons: str


def probe(
    name: str,
    checks: Mapping[str, HealthCheck],
    *,
    verbose: bool,
    exclude: Sequence[str] = (),
) -> Health:
    """Run the checks of the endpoint `name` (``healthz``) and return the answer.

    Upstream never shows why a check fails.
    """
    if not checks:
        checks = {"ping": lambda: None}
    problems = {
        check: None if check in exclude else run() for check, run in checks.items()
    }
    if any(problems.values()):
        withheld = {check: each and _WITHHELD for check, each in problems.items()}
        return Health(
            healthy=False,
            text=_text(problems, exclude, f"{name} check failed"),
            without_reasons=_text(withheld, exclude, f"{name} check failed"),
        )
    text = _text(problems, exclude, f"{name} check passed") if verbose else "ok"
    return Health(healthy=True, text=text, without_reasons=text)


def _text(
    problems: Mapping[str, str | None], exclude: Sequence[str], outcome: str
) -> str:
    lines = []
    for check, problem in problems.items():
        if check in exclude:
            lines.append(f"[+]{check} excluded: ok")
        elif problem:
            lines.append(f"[-]{check} failed: {problem}")
        else:
            lines.append(f"[+]{check} ok")
    if unknown := sorted(set(exclude) - set(problems)):
        listed = ",".join(f'"{each}"' for each in unknown)
        lines.append(
            "warn: some health checks cannot be excluded: no matches for " + listed
        )
    return "\n".join([*lines, f"{outcome}\n"])
