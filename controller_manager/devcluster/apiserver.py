"""The API server of the development cluster, with the kinds of Kubernetes."""

import random
from collections.abc import Collection, Iterable, Mapping

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from controller_manager.clock import Clock
from controller_manager.devcluster.admission.building import Parts, build_chain
from controller_manager.devcluster.admission.dynamic import dynamic_plugins
from controller_manager.devcluster.admission.plugins import WITHOUT_ACCOUNTS
from controller_manager.devcluster.bootstrap import bootstrap_objects
from controller_manager.devcluster.kinds import find_kinds
from controller_manager.devcluster.kinds.core.account_tokens import (
    AccountTokens,
    track_account_tokens,
)
from controller_manager.devcluster.kinds.core.bootstrap_token import (
    user_of_bootstrap_token,
)
from controller_manager.devcluster.kinds.core.service_ranges import DEFAULT_RANGE
from controller_manager.devcluster.kinds.core.serviceaccount import uid_of_account
from controller_manager.devcluster.kinds.networking.default_cidr import (
    add_default_cidr,
)
from controller_manager.devcluster.kinds.rbac.authorizer import RBACAuthorizer
from controller_manager.devcluster.kinds.scheduling.priorityclass import (
    add_system_classes,
)
from controller_manager.devcluster.metrics.apis import metrics_apis
from controller_manager.devcluster.server.admission import Chain
from controller_manager.devcluster.server.authentication import Tokens, User
from controller_manager.devcluster.server.authorization import Authorizer
from controller_manager.devcluster.server.genericapiserver import GenericAPIServer
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.storage import HISTORY, Storage
from controller_manager.observability.logs import Logger
from controller_manager.options.gates import FeatureGates
from controller_manager.registry import registry


class APIServer(GenericAPIServer):
    """Serves the kinds of the package `kinds`."""

    def __init__(  # noqa: PLR0913 - what a server is made of
        self,
        *,
        clock: Clock,
        rng: random.Random,
        users: Mapping[str, User],
        history: int | None = None,
        service_cluster_ip_range: str = DEFAULT_RANGE,
        rbac: bool = False,
        features: FeatureGates | None = None,
        admission_plugins: Collection[str] = WITHOUT_ACCOUNTS,
        logger: Logger | None = None,
    ) -> None:
        """Take the clock, randomness, and the users by their bearer tokens.

        `history` is the number of changes that each resource keeps for watches. `rbac`
        creates the bootstrap roles, and refuses what no role allows. `features` are
        the gates with another value than their default. Services get addresses of
        `service_cluster_ip_range`: one range, or two of both families with a comma
        between. Raises RangeError for anything else. `admission_plugins` are the names
        of those that are on.
        """
        storage = Storage(HISTORY if history is None else history)
        gates = features or FeatureGates()
        authorizer = RBACAuthorizer(storage) if rbac else Authorizer()
        parts = Parts(storage, clock, rng, authorizer)
        super().__init__(
            [kind.with_features(gates) for kind in find_kinds()],
            storage,
            clock=clock,
            rng=rng,
            tokens=Tokens(
                users,
                rng,
                clock,
                lambda namespace, name: uid_of_account(storage, namespace, name),
                self._user_of,
            ),
            authorizer=authorizer,
            admission=build_chain(
                admission_plugins,
                parts,
                dynamic_plugins(storage, self._kinds, authorizer, rng),
            ),
            logger=logger,
        )
        self._account_tokens: AccountTokens | None = None
        for api in metrics_apis(storage, clock, self.catalogue.of):
            self.aggregate(api)
        add_system_classes(self.objects)
        add_default_cidr(self.objects, service_cluster_ip_range)
        if rbac:
            # Without a plugin: the namespaces of the roles do not exist yet.
            self._create_bootstrap_roles(Objects(storage, clock, rng, Chain()))

    def accept_account_tokens(self, key: EllipticCurvePublicKey) -> None:
        """Authenticate service accounts by tokens in secrets, and track their use.

        A key on the curve P-256 must prove their signatures. The namespace kube-system
        must exist.
        """
        self._account_tokens = AccountTokens(self.objects, key)
        track_account_tokens(self.objects)

    def _kinds(self) -> Iterable[Kind]:
        return self.catalogue.all()

    def _user_of(self, token: str) -> User | None:
        """Return the user of a token that a secret makes valid."""
        now = self.objects.clock.now()
        if user := user_of_bootstrap_token(self.storage, token, now):
            return user
        return self._account_tokens.user_of(token) if self._account_tokens else None

    def _create_bootstrap_roles(self, objects: Objects) -> None:
        for obj in bootstrap_objects(registry()):
            kind = self.catalogue.of(obj["apiVersion"], obj["kind"])
            assert kind is not None  # noqa: S101 - a kind that is found
            objects.create(kind, obj["metadata"].get("namespace", ""), obj)
