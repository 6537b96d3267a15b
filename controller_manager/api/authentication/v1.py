"""authentication.k8s.io/v1: token requests and token reviews."""

from controller_manager.api.meta import APIStruct, CompleteObject, Resource


class BoundObjectReference(APIStruct, frozen=True):
    """The object that a token is bound to: the token expires when it is deleted."""

    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class TokenRequestSpec(APIStruct, frozen=True):
    """The audiences and the lifetime of the requested token."""

    audiences: tuple[str, ...] | None = None
    expiration_seconds: int | None = None
    bound_object_ref: BoundObjectReference | None = None


class TokenRequestStatus(APIStruct, frozen=True):
    """The token and its expiry."""

    token: str = ""
    expiration_timestamp: str | None = None


class TokenRequest(CompleteObject, frozen=True):
    """Requests a token of a service account."""

    spec: TokenRequestSpec = TokenRequestSpec()
    status: TokenRequestStatus = TokenRequestStatus()


class UserInfo(APIStruct, frozen=True):
    """The name, uid and groups of a user."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class TokenReviewSpec(APIStruct, frozen=True):
    """The token to review, and the audiences that it must be valid for."""

    token: str = ""
    audiences: tuple[str, ...] | None = None


class TokenReviewStatus(APIStruct, frozen=True):
    """The answer of a review: the validity of the token, and its user."""

    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] | None = None
    error: str = ""


class TokenReview(CompleteObject, frozen=True):
    """Asks whether a token is valid, and for its user."""

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
