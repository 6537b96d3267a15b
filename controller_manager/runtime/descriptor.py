"""The descriptor of a controller: its facts, known before its code is imported."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, TypeVar

from msgspec import structs

from controller_manager.api.apiextensions.definition import Definition
from controller_manager.api.meta import AnyResource
from controller_manager.informers.reads import Reads
from controller_manager.options.config import Config
from controller_manager.options.controller_options import ControllerOptions, flags_of
from controller_manager.options.flag import Flag
from controller_manager.options.gates import FeatureGates, Gate

from .admission import AnyWebhook
from .permissions import Permission

GatedT = TypeVar("GatedT")


def lacks_nothing(_: Config, __: str) -> str:
    """Return "": the controller starts with any configuration."""
    return ""


def lacks_authority(_: Config, root_ca: str) -> str:
    """Return how to make an authority known, "" if `root_ca` (PEM) has one."""
    if root_ca:
        return ""
    return "--root-ca-file, or a kubeconfig with a certificate-authority"


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The facts of one controller.

    The package of a controller exports one as ``CONTROLLER``. It is light: it
    imports types and options, not the controller's code.

    - `name`: upstream's; `aliases`: other names that ``--controllers`` takes.
    - `load`: the `Reconciler`, or an init function (from a `ControllerContext` to
      workers). Instead of itself, a text may say where it is, so that it is imported
      only if the controller runs: ``.module:name`` from the package, or the whole
      ``package.module:name``.
    - `requires`: resources that the API server must have; the controller waits for
      them. Those of another cluster tell that it needs the cluster.
    - `gated_requires`: the resources that it requires as well while a gate is enabled.
    - `reads`: the fields that it reads of cached objects whose type is a projection;
      of a resource that is not named here it reads all fields.
    - `options`: the class that declares its flags (see `options.option`).
    - `gates`: the feature gates that it reads.
    - `requires_gates`: the feature gates without which it does not run (upstream:
      requiredFeatureGates).
    - `lacks`: returns the flags that must be given before it can start, "" if it can
      start with this config and these authorities of the API server (PEM).
    - `permissions`: the rules of its role, as upstream's bootstrap policy has them.
    - `gated_permissions`: the rules that its role has as well while a gate is enabled.
    - `metrics`: the names of the metrics that only it has.
    - `component`: the source of its events, its name by default.
    - `service_account`: its service account in kube-system with
      ``--use-service-account-credentials``, its name by default.
    - `runs_first`: it starts before the others, which may need its tokens, and always
      sends its requests with the manager's own identity (upstream:
      requiresSpecialHandling).
    - `qps_factor`, `burst_factor`: its client's rate limit is the general one times
      these.
    - `in_flight`: returns how many requests its client sends at a time, if they are
      more than usual.
    - `makes`: the resources of the objects that it creates, each with the kind of
      their managing owner; `evicts_as`: the reason of the condition DisruptionTarget
      of the pods that it deletes. By these a preview knows its work on the server.
    - `definitions`: of its own custom resources; the command ``crds`` writes them.
    - `webhooks`: functions that validate or change what others write.
    - `package`: the package that `load` is relative to; the registry sets it.

    >>> CONTROLLER = Descriptor(
    ...     name="website-controller",
    ...     load="my_operator.controller:WebsiteReconciler",
    ...     requires=(WEBSITES, apps_v1.DEPLOYMENTS),
    ...     permissions=(allow(apps_v1.DEPLOYMENTS, "create", "patch"),),
    ... )
    >>> CONTROLLER.account
    'website-controller'

    Upstream: ControllerDescriptor of cmd/kube-controller-manager/app.
    """

    name: str
    load: str | Callable[..., Any]
    aliases: tuple[str, ...] = ()
    requires: tuple[AnyResource, ...] = ()
    gated_requires: tuple[tuple[Gate, tuple[AnyResource, ...]], ...] = ()
    reads: tuple[Reads, ...] = ()
    options: type[ControllerOptions] | None = None
    gates: tuple[Gate, ...] = ()
    requires_gates: tuple[Gate, ...] = ()
    lacks: Callable[[Config, str], str] = lacks_nothing
    permissions: tuple[Permission, ...] = ()
    gated_permissions: tuple[tuple[Gate, tuple[Permission, ...]], ...] = ()
    metrics: tuple[str, ...] = ()
    component: str = ""
    service_account: str = ""
    disabled_by_default: bool = False
    runs_first: bool = False
    qps_factor: int = 1
    burst_factor: int = 1
    in_flight: Callable[[Config], int] | None = None
    makes: tuple[tuple[AnyResource, str], ...] = ()
    evicts_as: str = ""
    definitions: tuple[Definition[Any], ...] = ()
    webhooks: tuple[AnyWebhook, ...] = ()
    package: str = ""

    @property
    def has_webhooks(self) -> bool:
        """True if the process must serve webhooks for it, of conversion included."""
        return bool(self.webhooks) or any(
            each.is_converted for each in self.definitions
        )

    @property
    def source(self) -> str:
        """The source of the controller's events."""
        return self.component or self.name

    @property
    def account(self) -> str:
        """The name of the controller's service account, "" for the manager's own."""
        if self.runs_first:
            return ""
        return self.service_account or self.name

    @property
    def clusters(self) -> frozenset[str]:
        """The names of the other clusters that it needs."""
        required = {each.cluster for each in self.requires}
        permitted = {each.cluster for each in self.permissions}
        return frozenset((required | permitted) - {""})

    def in_cluster(self, name: str) -> "Descriptor":
        """Return it with what it requires and may do in one of the other clusters.

        To an API server of that cluster these are its own.
        """
        return replace(
            self,
            requires=tuple(
                replace(each, cluster="")
                for each in self.requires
                if each.cluster == name
            ),
            permissions=tuple(
                structs.replace(each, cluster="")
                for each in self.permissions
                if each.cluster == name
            ),
            gated_requires=(),
            gated_permissions=(),
        )

    def requires_with(self, features: FeatureGates) -> tuple[AnyResource, ...]:
        """Return the resources that it requires with these feature gates.

        Those of other clusters are left out.
        """
        own = (each for each in self.requires if not each.cluster)
        return (*own, *_enabled(self.gated_requires, features))

    def permissions_with(self, features: FeatureGates) -> tuple[Permission, ...]:
        """Return the rules of its role on an API server with these feature gates.

        Those in other clusters are left out.
        """
        own = (each for each in self.permissions if not each.cluster)
        return (*own, *_enabled(self.gated_permissions, features))

    @property
    def flags(self) -> tuple[Flag, ...]:
        """The controller's own flags."""
        return flags_of(self.options, self.name)

    def resolve(self) -> Callable[..., Any]:
        """Return the object that `load` names, which is imported; or `load` itself.

        Raises ImportError for a missing module and AttributeError for a missing name.
        """
        if not isinstance(self.load, str):
            return self.load
        if self.load.startswith(".") and not self.package:
            msg = (
                f"{self.name}: load={self.load!r} is relative to no package; write "
                "the whole module, or give the Descriptor package=__name__"
            )
            raise ImportError(msg)
        module, _, name = self.load.partition(":")
        found: Callable[..., Any] = getattr(
            import_module(module, self.package or None), name
        )
        return found


def _enabled(
    gated: Iterable[tuple[Gate, tuple[GatedT, ...]]], features: FeatureGates
) -> Iterator[GatedT]:
    return (each for gate, more in gated if features.is_enabled(gate) for each in more)
