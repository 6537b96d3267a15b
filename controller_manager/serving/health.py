"""The answers of /healthz, /livez and /readyz (apiserver pkg/server/healthz)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

HealthCheck = Callable[[], str | None]
"""Returns the problem, `None` for none."""


Observe = Callable[[str, bool], None]
"""Takes the name of a check that was run, and whether it passed."""

_WITHHELD: Final = "reason withheld"


@dataclass(frozen=True, slots=True)
class Health:
    """The answer to a probe, with and without the reasons of failing checks."""

    healthy: bool
    text: str
    without_reasons: str


def installed(checks: Mapping[str, HealthCheck]) -> Mapping[str, HealthCheck]:
    """Return the checks, or ``ping``, which always passes, if there are none."""
    return checks or {"ping": lambda: None}


def results(checks: Mapping[str, HealthCheck]) -> Mapping[str, HealthCheck]:
    """Run checks; return checks that repeat the results, for another thread."""
    return {name: _repeating(check()) for name, check in checks.items()}


def _repeating(problem: str | None) -> HealthCheck:
    return lambda: problem


def probe(
    name: str,
    checks: Mapping[str, HealthCheck],
    *,
    verbose: bool,
    exclude: Sequence[str] = (),
    observe: Observe | None = None,
) -> Health:
    """Run the checks of the endpoint `name` (``healthz``) and return the answer.

    `observe` is called for each check that is not excluded. Upstream never shows why a
    check fails.
    """
    problems: dict[str, str | None] = {}
    for check, run in installed(checks).items():
        problems[check] = None if check in exclude else run()
        if observe is not None and check not in exclude:
            observe(check, not problems[check])
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
