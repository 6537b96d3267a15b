"""The admission plugins MutatingAdmissionWebhook and ValidatingAdmissionWebhook."""

import asyncio
import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver import admission
from controller_manager.devcluster.apiserver.kind import Kind, Pending
from controller_manager.devcluster.scheme.decoding import go_json_error, random_uid
from controller_manager.devcluster.scheme.patches import PatchError, json_patch
from controller_manager.devcluster.scheme.statuses import (
    Refusal,
    bad_request,
    forbidden,
)
from controller_manager.devcluster.storage import Collection
from controller_manager.devcluster.webhook import Failure, endpoint_of, posted

from . import writes

# The outcome of a webhook's answer for a write (webhook/errors, dispatcher.go).

_LEAST_CODE, _MOST_CODE = 400, 599


class Answer(Struct, frozen=True):
    """A valid answer. `status` is that of a webhook that refuses the write."""

    allowed: bool
    status: JSON = {}
    patch: Any = None
    warnings: tuple[str, ...] = ()


Outcome = Failure | Answer


def internal_error(message: str) -> Refusal:
    """Return a 500 (NewInternalError)."""
    details = {"causes": [{"message": message}]}
    return Refusal(500, "InternalError", f"Internal error occurred: {message}", details)


def no_dry_run(name: str) -> Refusal:
    """Return the refusal of a dry run that a webhook does not support."""
    return bad_request(f'admission webhook "{name}" does not support dry run')


def denied(name: str, status: JSON) -> Refusal:
    """Return the refusal that a webhook wants (ToStatusErr)."""
    text = f'admission webhook "{name}" denied the request'
    reason = str(status.get("reason") or "")
    if why := status.get("message") or reason:
        text = f"{text}: {why}"
    else:
        text = f"{text} without explanation"
    code = int(status.get("code") or 0)
    if not _LEAST_CODE <= code <= _MOST_CODE:
        code = _LEAST_CODE
    return Refusal(code, reason, text, status.get("details"))


# The webhooks of all configurations, in the order of the calls.


class Hook(Struct, frozen=True):
    """One webhook of a configuration; `config` is the webhook's JSON.

    `identity` stays the same while the configuration does not change.
    """

    configuration: str
    identity: tuple[str, str, str, int]
    config: JSON

    @property
    def name(self) -> str:
        """The name, which messages show."""
        return str(self.config["name"])

    @property
    def ignores_failures(self) -> bool:
        """True if a failed call counts as consent."""
        return bool(self.config.get("failurePolicy") == "Ignore")

    @property
    def has_side_effects(self) -> bool:
        """True if the webhook does not support dry runs."""
        return self.config.get("sideEffects") not in ("None", "NoneOnDryRun")

    @property
    def timeout(self) -> int:
        """The timeout of a call in seconds."""
        return int(self.config.get("timeoutSeconds", 10))


def hooks_of(configurations: Collection) -> Iterator[Hook]:
    """Yield the webhooks of configurations sorted by name (configuration/*_manager.go).

    The webhooks of one configuration come in its order.
    """
    for stored in sorted(
        configurations, key=lambda each: str(each.obj["metadata"]["name"])
    ):
        metadata = stored.obj["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        version = metadata["resourceVersion"]
        for number, config in enumerate(stored.obj.get("webhooks") or ()):
            yield Hook(name, (name, uid, version, number), config)


# AdmissionReview: the request to a webhook, and its answer.

_GROUP: Final = "admission.k8s.io"
_KIND: Final = "AdmissionReview"
_FAILED: Final = "failed to call webhook: "


class Unsuitable(Exception):
    """A webhook does not accept the reviews of this server."""


class Question(Struct, frozen=True):
    """A review without its uid. `subject` is equal for equal requests."""

    version: str
    request: JSON
    subject: bytes

    def body(self, uid: str) -> bytes:
        """Return the review with a uid."""
        head = {"kind": _KIND, "apiVersion": f"{_GROUP}/{self.version}"}
        return msgspec.json.encode({**head, "request": {"uid": uid, **self.request}})


def question_of(hook: Hook, write: admission.Write, kind: Kind) -> Question:
    """Return the review of a write, with its objects in the version of `kind`.

    Raises Unsuitable.
    """
    accepted = hook.config.get("admissionReviewVersions") or ()
    version = next((each for each in accepted if each in ("v1", "v1beta1")), None)
    if version is None:
        msg = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
        raise Unsuitable(f"could not create admission objects: {msg}")
    request = writes.request_of(write, kind)
    request["object"] = writes.in_requested(write, kind, write.obj)
    request["oldObject"] = writes.in_requested(write, kind, write.old)
    subject = {**request, "object": _without_managers(request["object"])}
    encoded = msgspec.json.encode((hook.identity, subject), order="deterministic")
    return Question(version, request, encoded)


def _without_managers(obj: JSON | None) -> JSON | None:
    """Return an object without the fields that follow from others or the request."""
    if obj is None or "managedFields" not in (obj.get("metadata") or ()):
        return obj
    metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return {**obj, "metadata": metadata}


class _Status(Struct, frozen=True):
    status: str = ""
    message: str = ""
    reason: str = ""
    details: JSON | None = None
    code: int = 0


class _Response(Struct, frozen=True):
    uid: str = ""
    allowed: bool = False
    status: _Status | None = None
    patch: str | None = None
    patch_type: str | UnsetType | None = field(name="patchType", default=UNSET)
    warnings: list[str] | None = None


class _Review(Struct, frozen=True):
    kind: str = ""
    api_version: str = field(name="apiVersion", default="")
    response: _Response | None = None


def answer_of(body: bytes, uid: str, version: str, *, mutates: bool) -> Outcome:
    """Read the answer of a webhook to a review with this uid and version."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except msgspec.ValidationError as error:
        return Failure(f"{_FAILED}json: cannot unmarshal the response: {error}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        why = f"couldn't get version/kind; json parse error: {go_json_error(body)}"
        return Failure(_FAILED + why)
    problem = _problem(review, uid, version, mutates=mutates)
    if problem:
        return Failure("received invalid webhook response: " + problem)
    assert review.response is not None  # noqa: S101 - it is no problem
    return _read(review.response)


def _problem(review: _Review, uid: str, version: str, *, mutates: bool) -> str:
    """Return the error in an answer (VerifyAdmissionResponse)."""
    response = review.response
    if response is None:
        return "webhook response was absent"
    if version == "v1beta1":
        return ""
    if response.uid != uid:
        return f'expected response.uid="{uid}", got "{response.uid}"'
    group, _, found = review.api_version.rpartition("/")
    if (group, found, review.kind) != (_GROUP, version, _KIND):
        got = f"{group}/{found}, Kind={review.kind}"
        wanted = f"{_GROUP}/{version}, Kind={_KIND}"
        return f"expected webhook response of {wanted}, got {got}"
    return _patch_problem(response, mutates=mutates)


def _patch_problem(response: _Response, *, mutates: bool) -> str:
    type_ = response.patch_type
    has_type = type_ is not UNSET and type_ is not None
    if not mutates:
        if response.patch:
            return "validating webhook may not return response.patch"
        if has_type:
            return "validating webhook may not return response.patchType"
        return ""
    if response.patch and not has_type:
        return "webhook returned response.patch but not response.patchType"
    if has_type and not response.patch:
        return "webhook returned response.patchType but not response.patch"
    return 'webhook returned invalid response.patchType of ""' if type_ == "" else ""


def _read(response: _Response) -> Outcome:
    warnings = tuple(response.warnings or ())
    if not response.allowed:
        status = msgspec.to_builtins(response.status) if response.status else {}
        return Answer(allowed=False, status=status, warnings=warnings)
    if not response.patch:
        return Answer(allowed=True, warnings=warnings)
    if response.patch_type not in (UNSET, None, "JSONPatch"):
        return Failure(f'unsupported patch type "{response.patch_type}"')
    try:
        patch = msgspec.json.decode(base64.b64decode(response.patch, validate=True))
    except (msgspec.DecodeError, binascii.Error, UnicodeDecodeError, RecursionError):
        return Failure(
            "received undecodable patch in webhook response: it is no JSON in base64"
        )
    if not isinstance(patch, list):
        return Failure(
            "received undecodable patch in webhook response: json: cannot unmarshal "
            "object into Go value of type jsonpatch.Patch"
        )
    return Answer(allowed=True, patch=patch, warnings=warnings)


# Calls webhooks, and remembers their answers for the next attempts of a write.


class Invocation(Struct, frozen=True):
    """A webhook to call, with objects in the version of `kind`."""

    hook: Hook
    kind: Kind


class Webhooks:
    """The webhooks of one kind of configuration."""

    def __init__(self, prefix: str, parts: writes.Parts) -> None:
        """Take ``mutating`` or ``validating``, with which their resource begins."""
        resource = f"{prefix}webhookconfigurations.{writes.REGISTRATION}"
        self.mutates = prefix == "mutating"
        self._configurations = parts.storage.collection(resource)
        self._storage = parts.storage
        self._matcher = writes.Matcher(parts.storage, parts.kinds)
        self._authorizer = parts.authorizer
        self._rng = parts.rng

    @property
    def are_configured(self) -> bool:
        """True if there is a configuration."""
        return len(self._configurations) > 0

    def hooks(self, write: admission.Write) -> Iterable[Hook]:
        """Return the webhooks that may match a write, in their order."""
        if not self.are_configured or writes.is_exempt(write):
            return ()
        return hooks_of(self._configurations)

    def invocation(self, hook: Hook, write: admission.Write) -> Invocation | None:
        """Return the call of a webhook, `None` if it does not match.

        Raises Refusal if its conditions cannot be evaluated.
        """
        kind = self._matcher.matched(write, hook.config, hook.config.get("rules") or ())
        if kind is None:
            return None
        conditions = hook.config.get("matchConditions") or ()
        if conditions and not self._hold(conditions, hook, write, kind):
            return None
        return Invocation(hook, kind)

    def _hold(
        self, conditions: Iterable[JSON], hook: Hook, write: admission.Write, kind: Kind
    ) -> bool:
        names = writes.names_of(write, kind, self._matcher, self._authorizer)
        try:
            return writes.hold(conditions, names)
        except writes.ConditionError as error:
            if hook.ignores_failures:
                return False
            asked, name = write.requested, write.shown_name
            raise forbidden(asked.group, asked.plural, name, str(error)) from None

    def outcomes(
        self, invocations: Iterable[Invocation], write: admission.Write
    ) -> list[tuple[Hook, Outcome]]:
        """Return the answers of webhooks; raises Pending if one is missing.

        It calls all webhooks without an answer at the same time.
        """
        submission = write.submission
        assert submission is not None  # noqa: S101 - webhooks are for clients
        found: list[tuple[Hook, Outcome]] = []
        asked: list[tuple[Hook, Question]] = []
        for each in invocations:
            try:
                question = question_of(each.hook, write, each.kind)
            except Unsuitable as error:
                found.append((each.hook, Failure(str(error))))
                continue
            outcome = submission.recall(question.subject)
            if outcome is None:
                asked.append((each.hook, question))
            else:
                found.append((each.hook, outcome))
        if asked:
            raise Pending(lambda: self._ask(asked, submission))
        return found

    async def _ask(
        self, asked: Iterable[tuple[Hook, Question]], submission: admission.Submission
    ) -> None:
        async with asyncio.TaskGroup() as group:
            for hook, question in asked:
                group.create_task(self._ask_one(hook, question, submission))

    async def _ask_one(
        self, hook: Hook, question: Question, submission: admission.Submission
    ) -> None:
        submission.remember(question.subject, await self._outcome(hook, question))

    async def _outcome(self, hook: Hook, question: Question) -> Outcome:
        client = hook.config["clientConfig"]
        endpoint = endpoint_of(client, self._storage, hook.timeout)
        if isinstance(endpoint, Failure):
            return Failure(f"could not get REST client: {endpoint.why}")
        uid = random_uid(self._rng)
        answer = await posted(endpoint, question.body(uid), hook.timeout)
        if isinstance(answer, Failure):
            return Failure(f"failed to call webhook: {answer.why}")
        return answer_of(answer, uid, question.version, mutates=self.mutates)


# The admission plugin ValidatingAdmissionWebhook (validating/dispatcher.go).


class ValidatingAdmissionWebhook(writes.BuiltInPlugin):
    """Calls validating webhooks about an object, all at the same time.

    The refusal of the first in their order counts.
    """

    name: ClassVar = "ValidatingAdmissionWebhook"
    validates: ClassVar = frozenset(admission.Operation)

    def __init__(self, parts: writes.Parts) -> None:
        super().__init__(parts)
        self._webhooks = Webhooks("validating", parts)

    def validate(self, write: admission.Write) -> None:
        """Raise Refusal if a webhook refuses; raise Pending if an answer is missing."""
        found = (
            self._webhooks.invocation(hook, write)
            for hook in self._webhooks.hooks(write)
        )
        invocations = [each for each in found if each is not None]
        if write.is_dry_run:
            for each in invocations:
                if each.hook.has_side_effects:
                    raise no_dry_run(each.hook.name)
        if not invocations:
            return
        outcomes = self._webhooks.outcomes(invocations, write)
        for _, outcome in outcomes:
            for text in () if isinstance(outcome, Failure) else outcome.warnings:
                write.warn(text)
        for hook, outcome in outcomes:
            check_outcome(hook, outcome)


def check_outcome(hook: Hook, outcome: Outcome) -> None:
    """Raise Refusal if a webhook refuses, or fails with failurePolicy Fail."""
    if isinstance(outcome, Failure):
        if not hook.ignores_failures:
            why = f'failed calling webhook "{hook.name}": {outcome.why}'
            raise internal_error(why)
    elif not outcome.allowed:
        raise denied(hook.name, outcome.status)


# The admission plugin MutatingAdmissionWebhook (mutating/dispatcher.go).


class MutatingAdmissionWebhook(writes.BuiltInPlugin):
    """Lets mutating webhooks change an object, one after the other.

    Each webhook sees the changes of those before. If a webhook has changed the object,
    all mutating plugins see it once more, and webhooks with the reinvocationPolicy
    IfNeeded are called again if the object has changed after them.
    """

    name: ClassVar = "MutatingAdmissionWebhook"
    mutates: ClassVar = frozenset(admission.Operation)

    def __init__(self, parts: writes.Parts) -> None:
        super().__init__(parts)
        self._webhooks = Webhooks("mutating", parts)

    def acts(self) -> bool:
        """Tell whether there is a configuration."""
        return self._webhooks.are_configured

    def mutate(self, write: admission.Write) -> None:
        """Change the object by all matching webhooks; raises Refusal and Pending."""
        hooks = self._webhooks.hooks(write)
        if not hooks:
            return
        rounds = writes.Rounds.of(write, self.name)
        for hook in hooks:
            invocation = self._webhooks.invocation(hook, write)
            if invocation is None or rounds.leaves_out(hook.identity, write):
                continue
            changed = self._has_changed(invocation, write)
            policy = hook.config.get("reinvocationPolicy", "Never")
            rounds.note(hook.identity, write, changed=changed, policy=policy)
        rounds.end(write)

    def _has_changed(self, invocation: Invocation, write: admission.Write) -> bool:
        """Apply the answer of one webhook; tell whether it has changed the object."""
        hook = invocation.hook
        if write.is_dry_run and hook.has_side_effects:
            raise no_dry_run(hook.name)
        ((_, outcome),) = self._webhooks.outcomes((invocation,), write)
        if isinstance(outcome, Answer):
            for text in outcome.warnings:
                write.warn(text)
        check_outcome(hook, outcome)
        if not isinstance(outcome, Answer) or not outcome.patch:
            return False
        return _patch(invocation, write, outcome.patch)


def _patch(invocation: Invocation, write: admission.Write, patch: Any) -> bool:
    """Apply a patch to the object; tell whether the object changes. Raises Refusal."""
    hook, kind = invocation.hook, invocation.kind
    shown = writes.in_requested(write, kind, write.obj)
    if shown is None:
        raise internal_error(
            f'admission webhook "{hook.name}" attempted to modify the object, which is '
            "not supported for this operation"
        )
    try:
        changed = json_patch(shown, patch)
    except PatchError as error:
        raise internal_error(str(error)) from None
    if not isinstance(changed, dict) or not isinstance(changed.get("metadata"), dict):
        raise internal_error("the patch leaves no object with metadata")
    if changed == shown:
        return False
    try:
        writes.take_changed(write, changed, kind)
    except Refusal as error:
        raise internal_error(error.message) from None
    return True
