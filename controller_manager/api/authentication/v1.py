"""authentication.k8s.io/v1: tokens, and whose they are."""

from controller_manager.api.meta import APIStruct, CompleteObject
from controller_manager.api.resource import Resource


class BoundObjectReference(APIStruct, frozen=True):
    """The object with which a token ends."""

    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class TokenRequestSpec(APIStruct, frozen=True):
    """What token is asked for."""

    audiences: tuple[str, ...] | None = None
    expiration_seconds: int | None = None
    bound_object_ref: BoundObjectReference | None = None


class TokenRequestStatus(APIStruct, frozen=True):
    """The token."""

    token: str = ""
    expiration_timestamp: str | None = None


class TokenRequest(CompleteObject, frozen=True):
    """Asks for a token of a service account."""

    spec: TokenRequestSpec = TokenRequestSpec()
    status: TokenRequestStatus = TokenRequestStatus()


class UserInfo(APIStruct, frozen=True):
    """Who somebody is."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class TokenReviewSpec(APIStruct, frozen=True):
    """The token to review, and for whom it must be."""

    token: str = ""
    audiences: tuple[str, ...] | None = None


class TokenReviewStatus(APIStruct, frozen=True):
    """Whose token it is, if anybody's."""

    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] | None = None
    error: str = ""


class TokenReview(CompleteObject, frozen=True):
    """Asks whose token something is."""

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
