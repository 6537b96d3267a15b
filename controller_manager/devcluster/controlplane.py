"""The control plane: the API server, with the objects that every cluster has."""

import asyncio
import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ec import (
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request
from controller_manager.clock import Clock
from controller_manager.devcluster.admission.writes import Parts
from controller_manager.devcluster.apiserver import security
from controller_manager.devcluster.apiserver.admission import Chain
from controller_manager.devcluster.apiserver.genericapiserver import GenericAPIServer
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.request_info import Document
from controller_manager.devcluster.registry.apiextensions.definitions import (
    sync_definitions,
)
from controller_manager.devcluster.registry.apiregistration import add_local_services
from controller_manager.devcluster.registry.coordination import add_bootstrap_flows
from controller_manager.devcluster.registry.core.cluster import NAMESPACES as NAMESPACE
from controller_manager.devcluster.registry.core.secrets import (
    CONFIGURATION_PATH,
    KEYS_PATH,
    KEYS_TYPE,
    AccountTokens,
    key_set,
    openid_configuration,
    track_account_tokens,
    user_of_bootstrap_token,
)
from controller_manager.devcluster.registry.core.service_account_tokens import (
    BoundTokens,
)
from controller_manager.devcluster.registry.core.service_addresses import (
    DEFAULT_RANGE,
    ranges_of,
)
from controller_manager.devcluster.registry.core.services import ENDPOINTS, SLICES
from controller_manager.devcluster.registry.core.services import KIND as SERVICES
from controller_manager.devcluster.registry.kinds import (
    bootstrap_manifest,
)
from controller_manager.devcluster.registry.networking import add_default_cidr
from controller_manager.devcluster.registry.rbac import (
    AUTO_UPDATE,
    EscalationCheck,
    reconcile,
)
from controller_manager.devcluster.registry.rbac_authorizer import RBACAuthorizer
from controller_manager.devcluster.registry.scheduling import (
    add_system_classes,
)
from controller_manager.devcluster.validation import values
from controller_manager.observability.logs import Logger
from controller_manager.options.gates import FeatureGates
from controller_manager.runtime.permissions import Permission, controller_roles
from controller_manager.runtime.registry import Registry

from . import admission, metrics
from .registry import access, find_storages, kinds_with
from .snapshot import PATH, SnapshotEndpoint
from .storage import Storage, StorageState, restore

# The namespaces that every cluster has (controlplane/controller/systemnamespaces).

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")

_PERIOD: Final = 60.0


def add_system_namespaces(objects: Objects) -> None:
    """Create the namespaces that do not exist."""
    for name in NAMESPACES:
        if not objects.has(NAMESPACE, "", name):
            objects.create(NAMESPACE, "", {"metadata": {"name": name}})


async def keep_system_namespaces(objects: Objects) -> None:
    """Create deleted namespaces again, within a minute; run until cancelled."""
    while True:
        await asyncio.sleep(_PERIOD)
        add_system_namespaces(objects)


# The service ``kubernetes``: the address of the API server inside the cluster.

_NAME: Final = "kubernetes"
_NAMESPACE: Final = "default"
_PORT: Final = 443


def add_kubernetes_service(objects: Objects, host: str, port: int) -> None:
    """Create the service, its Endpoints and its slice, or bring them up to date.

    `host` and `port` are where the server listens.
    """
    clients = {"name": "https", "port": _PORT, "protocol": "TCP", "targetPort": port}
    spec = {"clusterIP": str(ranges_of(objects.storage)[0][1]), "ports": [clients]}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    metadata = {"name": _NAME, "labels": labels}
    if not objects.has(SERVICES, _NAMESPACE, _NAME):
        objects.create(SERVICES, _NAMESPACE, {"metadata": metadata, "spec": spec})
    else:  # an earlier server may have listened on another port
        known = objects.find(SERVICES, _NAMESPACE, _NAME).obj
        changed = {**known, "spec": {**known["spec"], "ports": [clients]}}
        objects.update(SERVICES, _NAMESPACE, _NAME, changed)
    address = values.parse_address(host)
    family = values.family_of(address) if address else "IPv4"
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    _add(
        objects,
        ENDPOINTS,
        {"endpointslice.kubernetes.io/skip-mirror": "true"},
        {},
        {"subsets": [{"addresses": [{"ip": host}], "ports": ports}]},
    )
    endpoint = {"addresses": [host], "conditions": {"ready": True}}
    _add(
        objects,
        SLICES,
        {"kubernetes.io/service-name": _NAME},
        {"addressType": family},
        {"endpoints": [endpoint], "ports": ports},
    )


def _add(
    objects: Objects, kind: Kind, labels: dict[str, str], head: JSON, content: JSON
) -> None:
    """Create an object without `content`, then add the content without checks.

    The server listens on the loopback interface, and validation refuses endpoints
    with such addresses.
    """
    metadata = {"name": _NAME, "labels": labels}
    if objects.has(kind, _NAMESPACE, _NAME):
        created = objects.find(kind, _NAMESPACE, _NAME).obj
    else:
        created = objects.create(kind, _NAMESPACE, {"metadata": metadata, **head}).obj
    if created != {**created, **content}:
        objects.put(kind, (_NAMESPACE, _NAME), {**created, **content})


# The bootstrap roles and bindings of a cluster.

MANAGER: Final = "system:kube-controller-manager"
"""The user that kubeadm's controller-manager.conf names, and the name of its role."""


def bootstrap_objects(
    build: Registry, features: FeatureGates | None = None
) -> list[JSON]:
    """Return roles and bindings, also for the controllers of a build.

    `features` are the gates of the API server; by default each has its default.
    """
    manifest = bootstrap_manifest("bootstrap-roles.yaml")
    return [
        *map(_marked, manifest),
        _metrics_reader(),
        *_of_controllers(build, features or FeatureGates()),
    ]


def _marked(obj: JSON) -> JSON:
    metadata: Mapping[str, Any] = obj["metadata"]
    labels = {
        "kubernetes.io/bootstrapping": "rbac-defaults",
        **(metadata.get("labels") or {}),
    }
    marks = {"labels": labels, "annotations": {AUTO_UPDATE: "true"}}
    return {**obj, "metadata": {**metadata, **marks}}


def _metrics_reader() -> JSON:
    """Return the role by which users of `view` read metrics.

    metrics-server has this role; the development cluster serves the metrics instead.
    """
    aggregated = ("view", "edit", "admin")
    labels = {
        f"rbac.authorization.k8s.io/aggregate-to-{each}": "true" for each in aggregated
    }
    rule = {
        "apiGroups": ["metrics.k8s.io"],
        "resources": ["pods", "nodes"],
        "verbs": ["get", "list", "watch"],
    }
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "system:aggregated-metrics-reader",
            "labels": {"k8s-app": "metrics-server", **labels},
        },
        "rules": [rule],
    }


def _of_controllers(build: Registry, features: FeatureGates) -> Iterator[JSON]:
    accounts: dict[str, dict[Permission, None]] = {}
    for descriptor in build.descriptors:
        if descriptor.runs_first:
            continue  # It acts as the manager itself.
        # Several controllers may share an account, and so a role.
        granted = accounts.setdefault(descriptor.account, {})
        granted.update(dict.fromkeys(descriptor.permissions_with(features)))
    for account, permissions in accounts.items():
        yield from map(_marked, controller_roles(account, permissions))


# The API server of the development cluster, with the kinds of Kubernetes.

_NO_CONTROLLERS: Final = Registry(())


class APIServer(GenericAPIServer):
    """Serves the kinds of the package ``registry``."""

    def __init__(  # noqa: PLR0913 - the parts of a server
        self,
        *,
        clock: Clock,
        rng: random.Random,
        users: Mapping[str, security.User],
        service_cluster_ip_range: str = DEFAULT_RANGE,
        rbac: bool = False,
        build: Registry = _NO_CONTROLLERS,
        features: FeatureGates | None = None,
        admission_plugins: Collection[str] = admission.WITHOUT_ACCOUNTS,
        logger: Logger | None = None,
        storage: Storage | None = None,
    ) -> None:
        """Take the clock, the random source, and the users by their bearer tokens.

        `storage` may have objects of an earlier server. `rbac` creates the bootstrap
        roles, also those of the controllers of `build`, and refuses requests without a
        role. `features` are the gates with another value than their default. Services
        get addresses of `service_cluster_ip_range`: one range, or two of both families
        with a comma between. Raises RangeError for anything else.
        """
        storage = storage or Storage()
        self._build, self._features = build, features or FeatureGates()
        self._bound_tokens = BoundTokens(storage, clock, rng)
        authorizer = (
            RBACAuthorizer(storage) if rbac else security.KnownUsers(self._is_known)
        )
        parts = Parts(storage, clock, rng, authorizer, self._kinds, self._features)
        super().__init__(
            kinds_with(self._features),
            storage,
            clock=clock,
            rng=rng,
            tokens=security.Tokens(users, self._bound_tokens, self._user_of),
            authorizer=authorizer,
            admission=admission.build_chain(
                admission_plugins, parts, [EscalationCheck(authorizer)]
            ),
            storages=find_storages(),
            logger=logger,
        )
        self._account_tokens: AccountTokens | None = None
        self._knows_everybody = False
        for group, version in metrics.VERSIONS.items():
            api = metrics.MetricsAPI(group, storage, clock, self.catalogue.of)
            self.aggregate(group, version, api)
        # Without a plugin: the namespaces of the roles may not exist yet.
        self._unchecked = Objects(storage, clock, rng, Chain())
        self._add_objects(service_cluster_ip_range)
        self.serve(PATH, SnapshotEndpoint(storage, self.restore))

    def _add_objects(self, service_cluster_ip_range: str) -> None:
        """Create the objects of every API server, unless they exist."""
        add_system_classes(self.objects)
        add_default_cidr(self.objects, service_cluster_ip_range)
        add_local_services(self.objects, self.catalogue)
        add_bootstrap_flows(self.objects)
        self._reconcile_roles()
        sync_definitions(self.objects, self.catalogue)

    def restore(self, state: StorageState, *, ends_watches: bool) -> None:
        """Replace all objects; the watches of clients go on, or end with 410."""
        restore(self.storage, state, ends_watches=ends_watches)
        self._reconcile_roles()
        sync_definitions(self.objects, self.catalogue)

    def _reconcile_roles(self) -> None:
        """Complete the bootstrap roles and bindings, if roles decide."""
        if isinstance(self.authorizer, RBACAuthorizer):
            wanted = bootstrap_objects(self._build, self._features)
            reconcile(self._unchecked, self.catalogue.of, wanted)

    def accept_account_tokens(self, key: EllipticCurvePublicKey) -> None:
        """Authenticate service accounts by tokens in secrets, and track their use.

        A key on the curve P-256 must prove their signatures. The namespace kube-system
        must exist.
        """
        self._account_tokens = AccountTokens(self.objects, key)
        track_account_tokens(self.objects)

    def sign_account_tokens(self, key: EllipticCurvePrivateKey) -> None:
        """Sign the tokens that service accounts get with a key on the curve P-256.

        So the tokens stay valid after a restart with the same key, and other programs
        can verify them.
        """
        self._bound_tokens.sign_with(key)
        self.serve(KEYS_PATH, Document(KEYS_TYPE, lambda: key_set(key)))
        self.serve(
            CONFIGURATION_PATH,
            Document("application/json", lambda: openid_configuration(self.address)),
        )

    def know_everybody(self) -> None:
        """Let access reviews allow everything to every user, unless roles decide.

        Without this, only users with a token and service accounts may do everything in
        reviews, as on the recorded API server.
        """
        self._knows_everybody = True

    def _is_known(self, name: str) -> bool:
        if self._knows_everybody:
            return name != security.ANONYMOUS.name
        account = access.account_of(name)
        if account is None:
            return self.tokens.is_known(name)
        return self.storage.collection("serviceaccounts").get(account) is not None

    def impersonated(self, user: security.User, request: Request) -> security.User:
        """Return the user that the Impersonate headers name; raises Refusal."""
        if not access.impersonates(request.headers):
            return user
        return access.impersonated(user, request.headers, self.authorizer)

    def _kinds(self) -> Iterable[Kind]:
        return self.catalogue.all()

    def _user_of(self, token: str) -> security.User | None:
        now = self.objects.clock.now()
        if user := user_of_bootstrap_token(self.storage, token, now):
            return user
        return self._account_tokens.user_of(token) if self._account_tokens else None
