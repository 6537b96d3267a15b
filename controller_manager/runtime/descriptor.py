"""A controller as everything around it sees it, before its code is imported."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from controller_manager.api.resource import AnyResource
from controller_manager.informers.reads import Reads
from controller_manager.options.controller_options import flags_of
from controller_manager.options.flag import Flag
from controller_manager.options.gates import Gate
from controller_manager.runtime.permissions import Permission


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The facts of one controller.

    The package of a controller exports one as ``CONTROLLER``. It is light: it
    imports types and options, not the controller's code.

    - `name`: upstream's; `aliases`: what ``--controllers`` takes as well.
    - `load`: where the `Reconciler` is, or an init function (from a
      `ControllerContext` to workers): ``.module:name`` from the package, or the
      whole ``package.module:name``.
    - `requires`: resources that the API server must have.
    - `reads`: what it reads of cached objects of types that are projections; of a
      resource that it does not name it reads everything.
    - `options`: the class that declares its flags (see `options.option`).
    - `gates`: feature gates that it looks at.
    - `permissions`: the rules of its role, as upstream's bootstrap policy has them.
    - `metrics`: the names of the metrics that only it has.
    - `component`: what its events name as their source, its name by default.
    - `service_account`: what it acts as in kube-system with
      ``--use-service-account-credentials``, its name by default.
    - `qps_factor`, `burst_factor`: its client's rate limit is the general one times
      these.
    - `package`: where `load` begins; filled in by the registry.

    Upstream: ControllerDescriptor of cmd/kube-controller-manager/app.
    """

    name: str
    load: str
    aliases: tuple[str, ...] = ()
    requires: tuple[AnyResource, ...] = ()
    reads: tuple[Reads, ...] = ()
    options: type[Any] | None = None
    gates: tuple[Gate, ...] = ()
    permissions: tuple[Permission, ...] = ()
    metrics: tuple[str, ...] = ()
    component: str = ""
    service_account: str = ""
    disabled_by_default: bool = False
    qps_factor: int = 1
    burst_factor: int = 1
    package: str = ""

    @property
    def source(self) -> str:
        """What the controller's events name as their source."""
        return self.component or self.name

    @property
    def account(self) -> str:
        """The service account that the controller may act as."""
        return self.service_account or self.name

    @property
    def flags(self) -> tuple[Flag, ...]:
        """The controller's own flags."""
        return flags_of(self.options, self.name)

    def loaded(self) -> Callable[..., Any]:
        """Import and return what `load` names.

        Raises ImportError or AttributeError if there is no such thing.
        """
        module, _, name = self.load.partition(":")
        found: Callable[..., Any] = getattr(
            import_module(module, self.package or None), name
        )
        return found
