"""The rules for pods and pod templates (pkg/apis/core/validation)."""

import re
from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import names, statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown

from .rules import Rule, nested
from .text import table
from .values import NO_VALUES, TOO_MANY_VALUES

# Volumes


def _no_steps_back(path: str, _: str) -> Iterator[str]:
    if ".." in path.split("/"):
        yield "must not contain '..'"


def _host_path_type(kind: str, field: str) -> Iterator[Cause]:
    if kind not in _HOST_PATH_TYPES:
        yield statuses.not_supported(field, shown(kind), _HOST_PATH_TYPES)


_HOST_PATH_TYPES: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File"),
    *("FileOrCreate", "Socket"),
)
_FILE: Final = table("""
    path: required descending-path
    mode: range 0 511
      "must be a number between 0 and 0777 (octal), both inclusive"
    """)
_KEYS: Final = table("""
    defaultMode: range 0 511
      "must be a number between 0 and 0777 (octal), both inclusive"
    items[]:
      key: required
      include FILE
    """)
VOLUME: Final = table("""
    union besides name:
      "must specify a volume type" "may not specify more than 1 volume type"
      configMap:
        name: required
        include KEYS
      csi:
        driver: required
      downwardAPI:
        defaultMode: range 0 511
          "must be a number between 0 and 0777 (octal), both inclusive"
        items[]:
          include FILE
      hostPath:
        path: required no_steps_back
        type: host_path_type
      nfs:
        server, path: required
        path: matches "/.*" pointer "must be an absolute path"
      persistentVolumeClaim:
        claimName: required
      projected:
        defaultMode: range 0 511
          "must be a number between 0 and 0777 (octal), both inclusive"
      secret:
        secretName: required
        include KEYS
    name: required label
    name: unique
    """)


# Affinity, topology spread constraints, taints and tolerations

_ONE_VALUE: Final = "must be specified single value when `operator` is 'Lt' or 'Gt'"
_COMPARISONS: Final = ("Gt", "Lt")
"""Operators that upstream has behind the gate TaintTolerationComparisonOperators."""


def _operator(requirement: JSON, path: str, _: JSON) -> Iterator[Cause]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    where = f"{path}values"
    if operator in ("In", "NotIn"):
        if not values:
            yield statuses.required(where, NO_VALUES)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield statuses.forbidden_field(where, TOO_MANY_VALUES)
    elif operator not in ("Gt", "Lt"):
        why = "not a valid selector operator"
        yield statuses.invalid(f"{path}operator", shown(operator), why)
    elif len(values) != 1:
        yield statuses.required(where, _ONE_VALUE)


_TERM: Final = table("""
    matchExpressions[]:
      hook operator
      key: qualified default empty
    """)
_TOPOLOGY_KEY: Final = table("""
    topologyKey: required "can not be empty"
    topologyKey: qualified
    """)
_POD_TERM: Final = table("""
    labelSelector, namespaceSelector: selector
    include TOPOLOGY_KEY
    """)
_PODS: Final = table("""
    requiredDuringSchedulingIgnoredDuringExecution[]:
      include POD_TERM
    preferredDuringSchedulingIgnoredDuringExecution[]:
      weight: range 1 100 default 0 "must be in the range 1-100"
      podAffinityTerm always:
        include POD_TERM
    """)
AFFINITY: Final = table("""
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: required "must have at least one node selector term"
        nodeSelectorTerms[]:
          include TERM
      preferredDuringSchedulingIgnoredDuringExecution[]:
        weight: range 1 100 default 0 "must be in the range 1-100"
        preference:
          include TERM
    podAffinity:
      include PODS
    podAntiAffinity:
      include PODS
    """)
SPREAD_CONSTRAINT: Final = table("""
    maxSkew: at-least 1 default 0 "must be greater than zero"
    include TOPOLOGY_KEY
    whenUnsatisfiable: enum DoNotSchedule ScheduleAnyway default empty
    labelSelector: selector
    """)


def _value(toleration: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the value of a toleration by its operator, which the causes name."""
    operator, where = toleration.get("operator", ""), f"{path}operator"
    if operator in ("Equal", ""):
        yield from names.validate_labels({"key": toleration.get("value", "")}, where)
    elif operator == "Exists":
        if toleration.get("value"):
            why = "value must be empty when `operator` is 'Exists'"
            yield statuses.invalid(where, shown(toleration), why)
    elif operator not in _COMPARISONS:
        yield statuses.not_supported(where, shown(operator), ("Equal", "Exists"))


TOLERATION: Final = table(r"""
    key: qualified
    operator: invalid default empty if empty key and operator is-not Exists
      "operator must be Exists when `key` is empty, which means \"match all values and"
      "all keys\""
    effect: invalid default empty if has tolerationSeconds and effect is-not NoExecute
      "effect must be 'NoExecute' when `tolerationSeconds` is set"
    hook value
    effect: enum NoSchedule PreferNoSchedule NoExecute
    """)


def _as_go_prints(taint: JSON) -> JSON:
    """Return a taint with the names of the fields of Go's internal type."""
    return {
        "Key": taint.get("key", ""),
        "Value": taint.get("value", ""),
        "Effect": taint.get("effect", ""),
        "TimeAdded": taint.get("timeAdded"),
    }


TAINT: Final = table("""
    key: qualified default empty
    value: label-value
    effect: required enum NoSchedule PreferNoSchedule NoExecute filled
    key, effect: unique show as_go_prints
      "taints must be unique by key and effect pair"
    """)


# Pods and pod templates

_MOST_NAME_SERVERS: Final = 3
_LONGEST_SYSCTL: Final = 253
_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = rf"^({_SEGMENT}[\./])*{_SEGMENT}$"
_NO_SYSCTL: Final = (
    f"must have at most {_LONGEST_SYSCTL} characters and match regex {_SYSCTL}"
)


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


def _sysctl(name: str, _: str) -> Iterator[str]:
    """Check the name of a kernel parameter; nothing checks that a node has it."""
    if len(name) > _LONGEST_SYSCTL or not re.fullmatch(_SYSCTL, name):
        yield _NO_SYSCTL


POD_SPEC: Final = table("""
    volumes[]:
      include VOLUME
    include CONTAINERS
    restartPolicy: enum Always OnFailure Never default null
    dnsPolicy: enum ClusterFirst ClusterFirstWithHostNet Default None default null
    hook name_servers
    dnsConfig:
      nameservers[]: address
    nodeSelector: labels
    securityContext:
      sysctls[]:
        name: required sysctl
        name: unique
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
    """)
"""The outer object of a pod's spec is the pod, or the spec that has the template."""

_METADATA: Final = table("""
    labels: labels
    annotations: annotations
    """)


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
    return table(f"""
        template:
          spec:
            restartPolicy: enum Always
            activeDeadlineSeconds: forbidden
              "activeDeadlineSeconds in {owner} is not Supported"
        """)
