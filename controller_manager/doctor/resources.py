"""Checks that the API server serves the resources that the controllers need."""

from controller_manager.doctor.examination import Examination
from controller_manager.doctor.finding import Finding, error, ok, warning
from controller_manager.manager.missing import missing_resources


async def check_resources(examined: Examination) -> list[Finding]:
    """Look up all resources that the starting controllers require.

    The daemon looks again every 30 seconds, and runs the others meanwhile.
    """
    missing = await missing_resources(
        examined.client, examined.starting, examined.config.features
    )
    findings = [
        error(f"the resources of {version} cannot be discovered: {problem}")
        for version, problem in missing.problems.items()
    ]
    undiscovered = set(missing.problems)
    for name, lacking in missing.lacking.items():
        absent = [
            each for each in lacking if each.rpartition("/")[0] not in undiscovered
        ]
        if absent:
            listed = ", ".join(absent)
            findings.append(
                warning(
                    f"{name} would wait: the API server does not serve {listed}",
                    f"enable the API there, or give --controllers=*,-{name}",
                )
            )
    return findings or [ok("the API server serves all that the controllers need")]
