"""Checks that the API server serves the resources that the controllers need."""

from typing import Final

from controller_manager.manager.missing import missing_resources

from .examination import Examination
from .finding import Finding, error, ok, warning

_OWN: Final = "controller_manager.controllers."
"""The start of the package names of kube-controller-manager's own controllers."""


async def check_resources(examined: Examination) -> list[Finding]:
    """Look up all resources that the starting controllers require.

    The daemon watches definitions, looks again every 30 seconds, and runs the others
    meanwhile.
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
            mend = " and ".join(dict.fromkeys(_mend(examined, each) for each in absent))
            findings.append(
                warning(
                    f"{name} would wait: the API server does not serve {listed}",
                    f"{mend}, or give --controllers=*,-{name}",
                )
            )
    return findings or [ok("the API server serves all that the controllers need")]


def _mend(examined: Examination, resource: str) -> str:
    """Return what makes the API server serve a resource, ``GROUP/VERSION/PLURAL``.

    It has those of kube-controller-manager's own controllers built in. The definition
    of any other is an object.
    """
    version, _, plural = resource.rpartition("/")
    group = version.rpartition("/")[0]
    built_in = {
        required.group
        for descriptor in examined.build.descriptors
        if descriptor.package.startswith(_OWN)
        for required in descriptor.requires_with(examined.config.features)
    }
    if group in built_in:
        return "enable the API there"
    return f"apply the definition {plural}.{group}, with the version {version}"
