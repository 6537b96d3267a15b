"""The rules for the specs of pods and for pod templates (core/validation)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown

from .affinity import AFFINITY, SPREAD_CONSTRAINT, TOLERATION
from .containers import CONTAINERS
from .rules import Rule, nested
from .text import table
from .volumes import VOLUME

_MOST_NAME_SERVERS: Final = 3


def _name_servers(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the name servers, of which the policy None needs one."""
    servers = (spec.get("dnsConfig") or {}).get("nameservers") or []
    where = f"{path}dnsConfig.nameservers"
    if spec.get("dnsPolicy") == "None" and not servers:
        why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        missing = where if "dnsConfig" in spec else f"{path}dnsConfig"
        yield statuses.required(missing, why)
    if len(servers) > _MOST_NAME_SERVERS:
        why = f"must not have more than {_MOST_NAME_SERVERS} nameservers"
        yield statuses.invalid(where, shown(servers), why)


POD_SPEC: Final = table(
    """
    volumes[]:
      include VOLUME
    include CONTAINERS
    restartPolicy: enum Always OnFailure Never default null
    dnsPolicy: enum ClusterFirst ClusterFirstWithHostNet Default None default null
    hook name_servers
    dnsConfig:
      nameservers[]: address
    nodeSelector: labels
    affinity:
      include AFFINITY
    topologySpreadConstraints[]:
      include SPREAD_CONSTRAINT
    serviceAccountName, nodeName: subdomain
    hostname, subdomain: label
    priorityClassName, runtimeClassName: subdomain
    activeDeadlineSeconds: range 1 2147483647
    tolerations[]:
      include TOLERATION
    hostAliases[]:
      ip: address default empty
      hostnames[]: subdomain
    """,
    _name_servers,
    VOLUME=VOLUME,
    CONTAINERS=CONTAINERS,
    AFFINITY=AFFINITY,
    SPREAD_CONSTRAINT=SPREAD_CONSTRAINT,
    TOLERATION=TOLERATION,
)
"""The outer object of a pod's spec is the pod, or the spec that has the template."""

_METADATA: Final = table(
    """
    labels: labels
    annotations: annotations
    """
)


def _template(spec: JSON, path: str, errors: list[Cause], _: JSON) -> None:
    template = spec["template"]
    _METADATA.run(template.get("metadata", {}), f"{path}template.", errors, template)
    POD_SPEC.run(template["spec"], f"{path}template.spec.", errors, spec)


POD_TEMPLATE: Final = Rule(_template, "template", below=(nested("spec", [POD_SPEC]),))
"""The template of the object; upstream leaves ``metadata`` out of the paths."""


def always_restarts(owner: str) -> Rule:
    """Return the rules that pods of a template restart always, and have no deadline.

    `owner` is the kind of the object in upstream's message.
    """
    return table(
        f"""
        template:
          spec:
            restartPolicy: enum Always
            activeDeadlineSeconds: forbidden
              "activeDeadlineSeconds in {owner} is not Supported"
        """
    )
