"""authentication.k8s.io/v1, as far as it is used."""

from controller_manager.api.meta import APIStruct, ObjectMeta
from controller_manager.api.resource import Resource


class TokenRequestSpec(APIStruct, frozen=True):
    """What token is asked for."""

    audiences: tuple[str, ...] | None = None
    expiration_seconds: int | None = None


class TokenRequestStatus(APIStruct, frozen=True):
    """The token."""

    token: str = ""
    expiration_timestamp: str | None = None


class TokenRequest(APIStruct, frozen=True):
    """Asks for a token of a service account."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: TokenRequestSpec = TokenRequestSpec()
    status: TokenRequestStatus = TokenRequestStatus()


class UserInfo(APIStruct, frozen=True):
    """Who somebody is."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class TokenReviewSpec(APIStruct, frozen=True):
    """The token to review."""

    token: str = ""


class TokenReviewStatus(APIStruct, frozen=True):
    """Whose token it is, if anybody's."""

    authenticated: bool = False
    user: UserInfo = UserInfo()
    error: str = ""


class TokenReview(APIStruct, frozen=True):
    """Asks whose token something is."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: TokenReviewSpec = TokenReviewSpec()
    status: TokenReviewStatus = TokenReviewStatus()


TOKEN_REVIEWS: Resource[TokenReview] = Resource(
    "authentication.k8s.io",
    "v1",
    "tokenreviews",
    "TokenReview",
    TokenReview,
    namespaced=False,
)
