"""The API server of the development cluster, with the kinds of Kubernetes."""

import random
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import (
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)

from controller_manager.client.rest.transport import Request
from controller_manager.clock import Clock
from controller_manager.devcluster.admission.plugins import (
    WITHOUT_ACCOUNTS,
    Parts,
    build_chain,
    dynamic_plugins,
)
from controller_manager.devcluster.metrics.apis import metrics_apis
from controller_manager.observability.logs import Logger
from controller_manager.options.gates import FeatureGates
from controller_manager.runtime.registry import Registry

from .bootstrap import bootstrap_objects
from .data.endpoint import PATH, SnapshotEndpoint
from .kinds import find_storages, kinds_with
from .kinds.apiextensions.custom_resources import sync_definitions
from .kinds.apiregistration import add_local_services
from .kinds.authentication.impersonation import (
    account_of,
    impersonated,
    impersonates,
)
from .kinds.core.bootstrap_token import user_of_bootstrap_token
from .kinds.core.service.ranges import DEFAULT_RANGE
from .kinds.core.serviceaccount.account_tokens import (
    AccountTokens,
    track_account_tokens,
)
from .kinds.core.serviceaccount.bound_tokens import BoundTokens
from .kinds.core.serviceaccount.token_discovery import (
    CONFIGURATION_PATH,
    KEYS_PATH,
    KEYS_TYPE,
    key_set,
    openid_configuration,
)
from .kinds.flowcontrol.add_bootstrap_flows import add_bootstrap_flows
from .kinds.networking.default_cidr import add_default_cidr
from .kinds.rbac.authorizer import RBACAuthorizer
from .kinds.rbac.escalation import EscalationCheck
from .kinds.rbac.reconciliation import reconcile
from .kinds.scheduling.priorityclass import add_system_classes
from .server.genericapiserver import GenericAPIServer
from .server.http.document import Document
from .server.registry.objects import Objects
from .server.rest.admission import Chain
from .server.rest.kind import Kind
from .server.security.authentication import ANONYMOUS, Tokens, User
from .server.security.authorization import KnownUsers
from .server.storage.state import StorageState, restore
from .server.storage.storage import Storage

_NO_CONTROLLERS: Final = Registry(())


class APIServer(GenericAPIServer):
    """Serves the kinds of the package `kinds`."""

    def __init__(  # noqa: PLR0913 - the parts of a server
        self,
        *,
        clock: Clock,
        rng: random.Random,
        users: Mapping[str, User],
        service_cluster_ip_range: str = DEFAULT_RANGE,
        rbac: bool = False,
        build: Registry = _NO_CONTROLLERS,
        features: FeatureGates | None = None,
        admission_plugins: Collection[str] = WITHOUT_ACCOUNTS,
        logger: Logger | None = None,
        storage: Storage | None = None,
    ) -> None:
        """Take the clock, the random source, and the users by their bearer tokens.

        `storage` may have objects of an earlier server; without it, a new one is made.
        `rbac` creates the bootstrap roles, also those of the controllers of `build`,
        and refuses requests without a role.
        `features` are the gates with another value than their default. Services get
        addresses of `service_cluster_ip_range`: one range, or two of both families with
        a comma between. Raises RangeError for anything else. `admission_plugins` are
        the names of those that are on.
        """
        storage = storage or Storage()
        gates = self._features = features or FeatureGates()
        self._build = build
        self._bound_tokens = BoundTokens(storage, clock, rng)
        authorizer = RBACAuthorizer(storage) if rbac else KnownUsers(self._is_known)
        parts = Parts(storage, clock, rng, authorizer, self._kinds, gates)
        super().__init__(
            kinds_with(gates),
            storage,
            clock=clock,
            rng=rng,
            tokens=Tokens(users, self._bound_tokens, self._user_of),
            authorizer=authorizer,
            admission=build_chain(
                admission_plugins,
                parts,
                dynamic_plugins(storage, self._kinds, authorizer, rng),
                first=[EscalationCheck(authorizer)],
            ),
            storages=find_storages(),
            logger=logger,
        )
        self._account_tokens: AccountTokens | None = None
        self._knows_everybody = False
        for api in metrics_apis(storage, clock, self.catalogue.of):
            self.aggregate(api)
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
        """Tell whether access reviews know a user of this name."""
        if self._knows_everybody:
            return name != ANONYMOUS.name
        account = account_of(name)
        if account is None:
            return self.tokens.is_known(name)
        return self.storage.collection("serviceaccounts").get(account) is not None

    def impersonated(self, user: User, request: Request) -> User:
        """Return the user that the Impersonate headers name; raises Refusal."""
        if not impersonates(request.headers):
            return user
        return impersonated(user, request.headers, self.authorizer)

    def _kinds(self) -> Iterable[Kind]:
        return self.catalogue.all()

    def _user_of(self, token: str) -> User | None:
        """Return the user of a token that a secret makes valid."""
        now = self.objects.clock.now()
        if user := user_of_bootstrap_token(self.storage, token, now):
            return user
        return self._account_tokens.user_of(token) if self._account_tokens else None
