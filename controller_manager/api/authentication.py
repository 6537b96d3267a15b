"""authentication.k8s.io/v1 and authorization.k8s.io/v1, as far as they are used."""

from controller_manager.api.meta import APIStruct, ObjectMeta


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


class NonResourceAttributes(APIStruct, frozen=True):
    """A path that is no resource, and what is to be done with it."""

    path: str = ""
    verb: str = ""


class SubjectAccessReviewSpec(APIStruct, frozen=True):
    """Who wants to do what."""

    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class SubjectAccessReviewStatus(APIStruct, frozen=True):
    """Whether that is allowed."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""


class SubjectAccessReview(APIStruct, frozen=True):
    """Asks whether somebody may do something."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()
