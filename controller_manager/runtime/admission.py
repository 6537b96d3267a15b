"""Admission webhooks as functions, declared beside a controller.

An API server calls them before it stores an object. Upstream: the CustomValidator and
CustomDefaulter of controller-runtime's pkg/webhook/admission.
"""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypedDict, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from controller_manager.api.authentication.v1 import UserInfo
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import KubeObject, Resource
from controller_manager.options.controller_options import ControllerOptions, option

if TYPE_CHECKING:  # a descriptor loads no client
    from controller_manager.client.rest.client import Client

ObjectT = TypeVar("ObjectT", bound=KubeObject)
ResultT = TypeVar("ResultT")

Operation = Literal["CREATE", "UPDATE", "DELETE"]

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class AdmissionRequest(Struct, Generic[ObjectT], frozen=True):
    """A write that an API server asks about.

    - `object`: the object after the write; of a DELETE the one that goes.
    - `old`: the object before the write; `None` of a CREATE.
    - `user`: who writes: name, uid, groups.
    - `dry_run`: nothing will be stored.
    - `client`: reads as the controller does. The cache may be older than the write.
    - `warnings`: lines that are added here are shown to the user.

    >>> def keep_image(request: AdmissionRequest[Website]) -> None:
    ...     old = request.old
    ...     if old is not None and old.spec.image != request.object.spec.image:
    ...         request.warnings.append(f"{request.user.username} changes the image")
    >>> Validates(WEBSITES, keep_image).name
    'keep-image.websites.example.com'
    """

    operation: Operation
    object: ObjectT
    old: ObjectT | None
    user: UserInfo
    client: "Client"
    dry_run: bool = False
    subresource: str = ""
    warnings: list[str] = []


class FieldError(Struct, frozen=True):
    """What is wrong with a field.

    >>> FieldError("spec.replicas", "must be at most 10").field
    'spec.replicas'
    """

    field: str
    message: str

    def __str__(self) -> str:
        """Return field and message."""
        return f"{self.field}: {self.message}"


class Refused(Exception):
    """Refuses a write. The user reads the problems: texts, or errors of fields.

    >>> def at_most_ten(request: AdmissionRequest[Website]) -> None:
    ...     if request.object.spec.replicas > 10:
    ...         raise Refused(FieldError("spec.replicas", "must be at most 10"))
    >>> Validates(WEBSITES, at_most_ten).on
    ('CREATE', 'UPDATE')
    """

    def __init__(self, *problems: str | FieldError) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.fields = [each for each in problems if isinstance(each, FieldError)]


class WebhookSettings(TypedDict, total=False):
    """Fields of a webhook in its configuration, as the API of Kubernetes has them."""

    failurePolicy: Literal["Fail", "Ignore"]
    matchConditions: list[JSON]
    matchPolicy: Literal["Exact", "Equivalent"]
    namespaceSelector: JSON
    objectSelector: JSON
    reinvocationPolicy: Literal["Never", "IfNeeded"]
    sideEffects: Literal["None", "NoneOnDryRun"]
    timeoutSeconds: int


class Webhook(Struct, Generic[ObjectT, ResultT], frozen=True):
    """A function that an API server calls `on` some operations of a resource.

    It is for one `subresource` if that is named. `settings` has other fields of its
    configuration.
    """

    resource: Resource[ObjectT]
    function: Callable[[AdmissionRequest[ObjectT]], Awaitable[ResultT] | ResultT]
    on: tuple[Operation, ...] = ("CREATE", "UPDATE")
    subresource: str = ""
    settings: WebhookSettings = {}

    def __post_init__(self) -> None:
        """Check that the function has a name."""
        if not _LABEL.fullmatch(self._label):
            what = f"a webhook of {self.resource.plural} has no name"
            msg = f"{what}; write its function with def"
            raise ValueError(msg)

    @property
    def _label(self) -> str:
        name: str = getattr(self.function, "__name__", "")
        return name.strip("_").replace("_", "-").lower()

    @property
    def name(self) -> str:
        """The name of the webhook, which users see: that of its function first."""
        group = self.resource.group or "core"  # a name has three parts at least
        return f"{self._label}.{self.resource.plural}.{group}"


class Validates(Webhook[ObjectT, None], Generic[ObjectT], frozen=True):
    """A function that may refuse writes of a resource, by raising `Refused`.

    It may be asynchronous. Another exception refuses the write, too, and is logged.
    Without an answer the API server refuses, unless the `settings` say
    ``{"failurePolicy": "Ignore"}``.

    >>> async def has_image(request: AdmissionRequest[Website]) -> None:
    ...     if not request.object.spec.image:
    ...         raise Refused("a website needs an image")
    >>> CONTROLLER = Descriptor(
    ...     name="website-operator",
    ...     load="my_operator:WebsiteReconciler",
    ...     webhooks=(Validates(WEBSITES, has_image, settings={"timeoutSeconds": 5}),),
    ... )
    """


class Mutates(Webhook[ObjectT, ObjectT], Generic[ObjectT], frozen=True):
    """A function that returns the object to store, or refuses as `Validates` does.

    The API server gets what differs. Fields that the type lacks stay.

    >>> from msgspec.structs import replace
    >>> def fill_in(request: AdmissionRequest[Website]) -> Website:
    ...     website = request.object
    ...     if website.spec.image:
    ...         return website
    ...     return replace(website, spec=replace(website.spec, image="nginx"))
    >>> Mutates(WEBSITES, fill_in, on=("CREATE",)).name
    'fill-in.websites.example.com'
    """


AnyWebhook = Webhook[Any, Any]


def _is_url(value: str) -> str:
    """Return the problem with a URL, "" if there is none."""
    if not value or (value.startswith("https://") and urlsplit(value).hostname):
        return ""
    return f"must be like https://127.0.0.1:9443, not {value!r}"


class WebhookOptions(ControllerOptions):
    """The flags of a process with webhooks."""

    port: int = option(
        "webhook-port",
        "int32",
        "9443",
        "Port on which webhooks are served over HTTPS; 0 for none.",
    )
    url: str = option(
        "webhook-url",
        "string",
        "",
        "Where the API server reaches the webhooks if the process runs outside of a "
        "cluster, such as https://127.0.0.1:9443; by default the service of its name.",
        check=_is_url,
    )


def webhook_service(component: str) -> str:
    """Return the name of the service and of the secret of a process's webhooks."""
    return f"{component}-webhooks"
