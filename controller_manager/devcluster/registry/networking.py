"""Ranges of service addresses, ingresses and network policies.

The cluster carries out no ingress and no policy. Upstream: pkg/apis/networking,
pkg/controlplane/controller/defaultservicecidr.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.objects import Objects, RESTStorage
from controller_manager.devcluster.apiserver.strategy import fill
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    qualified,
    required,
    shown,
)
from controller_manager.devcluster.validation import values
from controller_manager.devcluster.validation.text import table

from .kinds import fixed_uid, kind_of

# Ranges

DEFAULT_CIDR: Final = "kubernetes"
"""The name of the ServiceCIDR that the API server creates."""

_MOST: Final = 2


class RangeError(ValueError):
    """A range of service addresses is not valid; the message says why."""


def _ranges(ranges: list[str], field: str) -> list[Cause]:
    """Check that there is one range, or one of each address family."""
    if not ranges:
        return [required(field, "at least one CIDR required")]
    if len(ranges) > _MOST:
        detail = f"may only hold up to {_MOST} values"
        return [invalid(field, shown({"cidrs": ranges}), detail)]
    versions = [values.range_version(each) for each in ranges]
    causes = [
        invalid(f"{field}[{number}]", shown(text), values.NOT_A_RANGE)
        for number, text in enumerate(ranges)
        if versions[number] is None
    ]
    if not causes and len(set(versions)) < len(versions):
        detail = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 "
            "and 2001:db8::/64"
        )
        causes.append(invalid(field, shown({"cidrs": ranges}), detail))
    return causes


def _more(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that at most a second address family was added."""
    before, after = old.get("cidrs", []), spec.get("cidrs", [])
    if after[: len(before)] != before:
        yield invalid(f"{path}cidrs", shown({"cidrs": after}), values.IMMUTABLE)


SERVICE_CIDRS: Final = kind_of(
    "networking.k8s.io/v1/servicecidrs",
    rules="spec:\n  cidrs: ranges default empty",
    update_rules="spec change:\n  hook more",
    printer="Name; CIDRs: join .spec.cidrs; Age",
)


def add_default_cidr(objects: Objects, ranges: str) -> None:
    """Store the ServiceCIDR `DEFAULT_CIDR`, if there is none; raises RangeError.

    `ranges` is one range, or two with a comma between them.
    """
    cidrs = ranges.split(",")
    if causes := _ranges(cidrs, "cidrs"):
        msg = f"--service-cluster-ip-range {ranges}: {causes[0].detail}"
        raise RangeError(msg)
    stored = objects.storage.collection(SERVICE_CIDRS.resource).get(("", DEFAULT_CIDR))
    if stored is not None:
        _check_same(ranges, stored.obj["spec"]["cidrs"])
        return
    now = format_time(objects.clock.now())
    ready = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
    }
    metadata = {
        "name": DEFAULT_CIDR,
        "uid": fixed_uid(ranges),
        "creationTimestamp": now,
    }
    obj = {
        "metadata": metadata,
        "spec": {"cidrs": cidrs},
        "status": {"conditions": [ready]},
    }
    objects.put(SERVICE_CIDRS, ("", DEFAULT_CIDR), obj)


def _check_same(ranges: str, stored: list[str]) -> None:
    """Check that a stored cluster has these ranges; raises RangeError."""
    if ranges.split(",") != stored:
        known = ",".join(stored)
        msg = (
            f"--service-cluster-ip-range {ranges}: the stored cluster has {known}, and "
            "a cluster keeps its range; name that one, or store this cluster elsewhere"
        )
        raise RangeError(msg)


# Addresses


def _canonical(name: str, field: str) -> Iterator[Cause]:
    if str(values.parse_address(name)) != name:
        yield invalid(field, shown(name), "must be a canonical form IP address")


def _parent(address: JSON) -> str:
    parent = address["spec"].get("parentRef")
    if not parent:
        return "<none>"
    resource = qualified(parent.get("group", ""), parent["resource"]).lower()
    parts = (resource, parent.get("namespace"), parent["name"])
    return "/".join(each for each in parts if each)


IP_ADDRESSES: Final = kind_of(
    "networking.k8s.io/v1/ipaddresses",
    check_name=_canonical,
    rules="""
        spec:
          parentRef: required pointer
          parentRef:
            group: subdomain
            resource: required path-segment
            name: required path-segment
            namespace: path-segment
        """,
    update_rules="spec change:\n  parentRef: immutable",
    printer="Name; ParentRef: parent; Age",
)


def _keep_used_address(objects: Objects, old: JSON | None, new: JSON | None) -> None:
    """Create the address again if it was deleted while a service has it.

    Upstream's repair loop does the same within some minutes. Otherwise a second
    service could get the address.
    """
    if new is not None or old is None:
        return
    metadata, parent = old["metadata"], old["spec"]["parentRef"]
    key = (parent.get("namespace", ""), parent["name"])
    service = objects.storage.collection(parent["resource"]).get(key)
    spec = service.obj.get("spec", {}) if service else {}
    if metadata["name"] in spec.get("clusterIPs", ()):
        kept = {"name": metadata["name"], "labels": metadata.get("labels", {})}
        objects.create(IP_ADDRESSES, "", {"metadata": kept, "spec": old["spec"]})


REST_STORAGE: Final = RESTStorage(IP_ADDRESSES.resource, after_write=_keep_used_address)


# Ingress classes

TYPED_REFERENCE: Final = table("""
    apiGroup: subdomain pointer
    kind: required path-segment
    name: required path-segment
    """)
"""The group, the kind and the name of an object."""


def _parameters(ingress_class: JSON) -> str:
    parameters = ingress_class["spec"].get("parameters")
    if not parameters:
        return "<none>"
    kind, group = parameters.get("kind", ""), parameters.get("apiGroup")
    shown_kind = f"{kind}.{group}" if group else kind
    return f"{shown_kind}/{parameters.get('name', '')}"


INGRESS_CLASSES: Final = kind_of(
    "networking.k8s.io/v1/ingressclasses",
    counts_generations=True,
    defaults={"spec": {"parameters": {"scope": "Cluster"}}},
    rules="""
        spec:
          controller: required longest 250
          controller: domain-path
          parameters:
            include TYPED_REFERENCE
            scope: enum Cluster Namespace
            when scope is Cluster:
              namespace: forbidden "`parameters.scope` is set to 'Cluster'"
            when scope is Namespace:
              namespace: required pointer
                "`parameters.scope` is set to 'Namespace'"
              namespace: label pointer
        """,
    update_rules="spec change:\n  controller: immutable",
    printer="Name; Controller: .spec.controller; Parameters: parameters; Age",
)

# Ingresses

_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
_MOST_HOSTS: Final = 3


def _no_address(name: str, _: str) -> Iterator[str]:
    if values.parse_address(name) is not None:
        yield "must be a DNS name, not an IP address"


def _path(path: JSON, where: str, _: JSON) -> Iterator[Cause]:
    kind, text, where = path["pathType"], path.get("path", ""), f"{where}path"
    if kind not in ("Exact", "ImplementationSpecific", "Prefix"):
        return
    if not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(where, shown(text), "must be an absolute path")
    if kind == "ImplementationSpecific":
        return
    for part in ("//", "/./", "/../", "%2f", "%2F"):
        if part in text:
            yield invalid(where, shown(text), f"must not contain '{part}'")
    for end in ("/..", "/."):
        if text.endswith(end):
            yield invalid(where, shown(text), f"cannot end with '{end}'")


def _one_kind(backend: JSON, path: str, _: JSON) -> Iterator[Cause]:
    count = ("resource" in backend) + ("service" in backend)
    if count != 1:
        both = "cannot set both resource and service backends"
        why = both if count else "resource or service backend is required"
        yield invalid(path[:-1], '""', why)


def _service_port(service: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the port of a service; upstream names the backend in two causes."""
    port, backend = service.get("port") or {}, path.removesuffix(".service.")
    name, number = port.get("name", ""), port.get("number", 0)
    if name and number:
        yield invalid(backend, '""', "cannot set both port name & port number")
    elif name:
        yield from values.validate_port_name(name, f"{path}port.name")
    elif number:
        yield from values.validate_port_number(number, f"{path}port.number")
    else:
        yield required(backend, "port name or number is required")


def _no_backend(_: JSON, path: str, __: JSON) -> Iterator[Cause]:
    why = "either `defaultBackend` or `rules` must be specified"
    yield invalid(path[:-1], "null", why)


def _same_class(ingress: JSON, _: str, __: JSON) -> Iterator[Cause]:
    """Check that the older annotation names the same class as the spec."""
    named = ingress["metadata"].get("annotations", {}).get(_CLASS_ANNOTATION)
    if named not in (None, ingress["spec"].get("ingressClassName", named)):
        why = "must match `ingressClassName` when both are specified"
        yield invalid(f"annotations.{_CLASS_ANNOTATION}", shown(named), why)


def _hosts(ingress: JSON) -> str:
    """Return the hosts of the rules, at most three of them."""
    hosts: list[str] = []
    rules = ingress["spec"].get("rules", ())
    for rule in rules:
        if len(hosts) == _MOST_HOSTS:
            more = len(rules) - _MOST_HOSTS
            return f"{','.join(hosts)} + {more} more..."
        hosts += [rule["host"]] if rule.get("host") else []
    return ",".join(hosts) or "*"


def _addresses(ingress: JSON) -> str:
    balanced = ingress["status"]["loadBalancer"].get("ingress", ())
    found = {each.get("ip") or each.get("hostname", "") for each in balanced}
    return ",".join(sorted(filter(None, found)))


def _ports(ingress: JSON) -> str:
    return "80, 443" if ingress["spec"].get("tls") else "80"


_BACKEND: Final = table("""
    hook one_kind
    when lacks service:
      resource:
        include TYPED_REFERENCE
    when lacks resource:
      service:
        name: required label
        hook service_port
    """)
INGRESSES: Final = kind_of(
    "networking.k8s.io/v1/ingresses",
    counts_generations=True,
    rules="""
        spec:
          when empty rules and lacks defaultBackend:
            hook no_backend
          defaultBackend:
            include BACKEND
          rules[]:
            host: no_address
            host: host
            http:
              paths: required
              paths[]:
                pathType: required pointer "pathType must be specified"
                when has pathType:
                  pathType: enum Exact ImplementationSpecific Prefix
                  hook path
                  backend always:
                    include BACKEND
          tls[]:
            hosts[]: host
            secretName: subdomain
          ingressClassName: subdomain pointer
        """,
    new_rules="hook same_class",
    status_rules="""
        status:
          loadBalancer:
            ingress[]:
              ip: address
              hostname: subdomain
              hostname: no_address
        """,
    printer="""
        Name
        Class: .spec.ingressClassName or <none>
        Hosts: hosts
        Address: addresses
        Ports: ports
        Age
        """,
)

# Network policies

_TYPES: Final = ("Ingress", "Egress")


def _ranges_of(spec: JSON) -> frozenset[str]:
    """Return all ranges of addresses in the spec of a network policy."""
    rules = (*(spec.get("ingress") or ()), *(spec.get("egress") or ()))
    peers = (rule.get(name) or () for rule in rules for name in ("from", "to"))
    blocks = [each["ipBlock"] for of in peers for each in of if each.get("ipBlock")]
    found = {each.get("cidr", "") for each in blocks}
    return frozenset(found.union(*(each.get("except") or () for each in blocks)))


def _types(types: Sequence[str], field: str) -> Iterator[Cause | str]:
    if len(types) > len(_TYPES):
        yield "may not specify more than two policyTypes"
        return
    for number, each in enumerate(types):
        if each not in _TYPES:
            yield not_supported(f"{field}[{number}]", shown(each), _TYPES)


def _last_port(port: JSON, path: str, _: JSON) -> Iterator[Cause]:
    first, last, where = port.get("port"), port["endPort"], f"{path}endPort"
    if first is None:
        why = "may not be specified when `port` is not specified"
        yield invalid(where, shown(last), why)
    elif not isinstance(first, int):
        why = "may not be specified when `port` is non-numeric"
        yield invalid(where, shown(last), why)
    else:
        if last < first:
            why = "must be greater than or equal to `port`"
            yield invalid(where, shown(last), why)
        yield from values.validate_port_number(last, where)


def _block(block: JSON, path: str, old: JSON) -> Iterator[Cause]:
    text = block.get("cidr", "")
    if not text:
        yield required(f"{path}cidr")
        return
    yield from _validate_range(text, f"{path}cidr", old)
    if (whole := _range(text)) is None:
        return
    for number, each in enumerate(block.get("except") or ()):
        where, part = f"{path}except[{number}]", _range(each)
        yield from _validate_range(each, where, old)
        if part is None:
            continue
        is_within = whole.version == part.version and part.network_address in whole
        if whole.prefixlen >= part.prefixlen or not is_within:
            yield invalid(where, shown(each), "must be a strict subset of `cidr`")


def _validate_range(text: str, field: str, old: JSON) -> Iterator[Cause]:
    """Check a range that the `old` spec does not have."""
    if _range(text) is None and text not in _ranges_of(old):
        yield invalid(field, shown(text), values.NOT_A_RANGE)


def _range(text: str) -> IPv4Network | IPv6Network | None:
    """Return a range of addresses; bits after its prefix may be set."""
    try:
        return ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


_PORT: Final = table("""
    protocol: enum TCP UDP SCTP
    port: port-or-name pointer
    when has endPort:
      hook last_port
    """)
_PEER: Final = table("""
    podSelector, namespaceSelector: selector
    ipBlock outer:
      hook block
    self: required if lacks podSelector namespaceSelector ipBlock
      "must specify a peer"
    self: forbidden if has ipBlock and has podSelector namespaceSelector
      "may not specify both ipBlock and another peer"
    """)
_POLICY: Final = table("""
    spec change:
      podSelector: selector
      ingress[] outer:
        ports[]:
          include PORT
        from[] outer:
          include PEER
      egress[] outer:
        ports[]:
          include PORT
        to[] outer:
          include PEER
      policyTypes: types
    """)
"""The rules for new policies and for updates, in which a wrong range may stay."""
_RULE_DEFAULTS: Final = {"ports[]": {"protocol": "TCP"}}


def _default_policy(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    egress = ["Egress"] if "egress" in spec else []
    spec.setdefault("policyTypes", ["Ingress", *egress])
    fill(spec, {"ingress[]": _RULE_DEFAULTS, "egress[]": _RULE_DEFAULTS})


NETWORK_POLICIES: Final = kind_of(
    "networking.k8s.io/v1/networkpolicies",
    apply_defaults=_default_policy,
    counts_generations=True,
    new_rules=_POLICY,
    update_rules=_POLICY,
    printer="Name; Pod-Selector: selector .spec.podSelector; Age",
)
