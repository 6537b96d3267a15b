"""The flags of the manager in charge, which a preview takes from its pod.

With other flags a preview would decide otherwise. Its report would then show
differences of the flags, and not of the two programs.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from controller_manager.api.coordination.v1 import LEASES
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import Client
from controller_manager.observability.logs import Logger
from controller_manager.options import manager_pods
from controller_manager.options.config import Config
from controller_manager.options.options import KnownControllers, OptionsError
from controller_manager.options.parsing import parse

DECIDE: Final = (
    "allocate-node-cidrs",
    "cidr-allocator-type",
    "cluster-cidr",
    "controllers",
    "disable-attach-detach-reconcile-sync",
    "disable-force-detach-on-timeout",
    "emulated-version",
    "enable-dynamic-provisioning",
    "enable-garbage-collector",
    "feature-gates",
    "horizontal-pod-autoscaler-cpu-initialization-period",
    "horizontal-pod-autoscaler-downscale-stabilization",
    "horizontal-pod-autoscaler-initial-readiness-delay",
    "horizontal-pod-autoscaler-sync-period",
    "horizontal-pod-autoscaler-tolerance",
    "large-cluster-size-threshold",
    "legacy-service-account-token-clean-up-period",
    "max-endpoints-per-slice",
    "mirroring-max-endpoints-per-subset",
    "node-cidr-mask-size",
    "node-cidr-mask-size-ipv4",
    "node-cidr-mask-size-ipv6",
    "node-eviction-rate",
    "node-monitor-grace-period",
    "node-monitor-period",
    "node-startup-grace-period",
    "secondary-node-eviction-rate",
    "service-cluster-ip-range",
    "statefulset-replace-stuck-pods",
    "terminated-pod-gc-threshold",
    "unhealthy-zone-threshold",
)
"""The flags on which the decisions of controllers depend.

The others name files that a preview does not see, or say how the program connects,
serves, logs and how much it does at a time.
"""

_GATES: Final = "feature-gates"
"""The flag of which a newer manager may have values that this build does not know."""

_LEASE: Final = "kube-controller-manager"
_PAUSE: Final = 1.0
"""Seconds between two attempts to reach the API server."""

_Flags = Mapping[str, Sequence[str]]
_Pod = Mapping[str, Any]


async def with_flags_in_charge(
    config: Config,
    given: _Flags,
    client: Client,
    build: KnownControllers,
    logger: Logger,
) -> Config:
    """Return a preview's config with the flags of the manager in charge that decide.

    `given` are the preview's own flags, which win. Those of the leader's pod are taken,
    or of any that has a manager, one that runs first, if the leader's is not found.
    Flags that this build cannot use are left out with a warning: first the feature
    gates, then all. The config stays as it is if it is no preview's, if it has a file,
    and, with a warning, if no pod shows flags.

    Raises TransportError if the API server does not answer in the time of
    ``--wait-for-apiserver-timeout``.
    """
    if not config.preview.enabled or "config" in given:
        return config
    try:
        pod = await _pod_in_charge(client, config.generic.api_server_timeout)
    except (errors.APIError, errors.ProtocolError) as error:
        logger.warning("Cannot read the flags of the manager in charge", err=str(error))
        return config
    if pod is None:
        logger.warning(
            "No pod shows the flags of the manager in charge",
            labels=manager_pods.LABEL,
            give="the flags that decide",
        )
        return config
    found = manager_pods.given_flags(
        manager_pods.arguments_of_pod(pod), build.flags
    ).values
    taken: _Flags = {
        name: found[name] for name in DECIDE if name in found and name not in given
    }
    where = f"{manager_pods.NAMESPACE}/{pod['metadata']['name']}"
    merged, taken = _usable(config, taken, given, build, logger.bind(pod=where))
    words = tuple(f"--{name}={','.join(texts)}" for name, texts in taken.items())
    logger.info("Took flags of the manager in charge", pod=where, flags=" ".join(words))
    return replace(merged, preview=replace(merged.preview, source=where, taken=words))


def _usable(
    config: Config,
    taken: _Flags,
    given: _Flags,
    build: KnownControllers,
    logger: Logger,
) -> tuple[Config, _Flags]:
    """Return the config with those of the taken flags that this build can use."""
    without_gates = {name: taken[name] for name in taken if name != _GATES}
    for usable in (taken, without_gates):
        try:
            return parse({**usable, **given}, build), usable
        except OptionsError as error:
            logger.warning(
                "Cannot use all flags of the manager in charge",
                err="; ".join(error.problems),
            )
    return config, {}


async def _pod_in_charge(client: Client, patience: float) -> _Pod | None:
    """Return the leader's pod, or any that has a manager, one that runs first."""
    query = (("labelSelector", manager_pods.LABEL),)
    time = asyncio.get_running_loop().time
    deadline = time() + patience
    while True:
        try:
            found = await client.read(manager_pods.PODS, dict[str, Any], query)
            holder = await _holder(client)
            break
        except errors.TransportError:
            # Zero is no limit: the daemon then waits for ever, and so does this.
            if patience and time() + _PAUSE > deadline:
                raise
            await asyncio.sleep(_PAUSE)
    return manager_pods.pod_in_charge(found.get("items") or (), holder)


async def _holder(client: Client) -> str:
    """Return the holder of upstream's lease, ``HOST_UUID``; empty if there is none."""
    try:
        lease = await client.get(LEASES, manager_pods.NAMESPACE, _LEASE)
    except (errors.Forbidden, errors.NotFound):
        return ""
    return lease.spec.holder_identity or ""
