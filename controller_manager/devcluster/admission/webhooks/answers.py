"""Calls webhooks, and remembers their answers for the next attempts of a write."""

import asyncio
import random
from collections.abc import Iterable

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.admission.expressions import (
    ConditionError,
    hold,
    names_of,
)
from controller_manager.devcluster.admission.writes import Kinds, Matcher, is_exempt
from controller_manager.devcluster.scheme.bodies import random_uid
from controller_manager.devcluster.scheme.statuses import forbidden
from controller_manager.devcluster.server.rest.admission import (
    Submission,
    Write,
)
from controller_manager.devcluster.server.rest.answers import Pending
from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.server.security.authorization import Authorizer
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.webhook.client import endpoint_of, posted
from controller_manager.devcluster.webhook.failures import Failure

from .hooks import Hook, hooks_of
from .outcomes import Outcome
from .review import Question, Unsuitable, answer_of, question_of


class Invocation(Struct, frozen=True):
    """A webhook to call, with objects in the version of `kind`."""

    hook: Hook
    kind: Kind


class Webhooks:
    """The webhooks of one kind of configuration."""

    def __init__(
        self,
        resource: str,
        storage: Storage,
        kinds: Kinds,
        authorizer: Authorizer,
        rng: random.Random,
    ) -> None:
        """Take the resource of the configurations, and the parts of reviews.

        `rng` generates the uids of reviews.
        """
        self.mutates = resource.startswith("mutating")
        self._configurations = storage.collection(resource)
        self._storage = storage
        self._matcher = Matcher(storage, kinds)
        self._authorizer = authorizer
        self._rng = rng

    @property
    def are_configured(self) -> bool:
        """True if there is a configuration."""
        return len(self._configurations) > 0

    def hooks(self, write: Write) -> Iterable[Hook]:
        """Return the webhooks that may match a write, in their order."""
        if not self.are_configured or is_exempt(write):
            return ()
        return hooks_of(self._configurations)

    def invocation(self, hook: Hook, write: Write) -> Invocation | None:
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
        self, conditions: Iterable[JSON], hook: Hook, write: Write, kind: Kind
    ) -> bool:
        names = names_of(write, kind, self._matcher, self._authorizer)
        try:
            return hold(conditions, names)
        except ConditionError as error:
            if hook.ignores_failures:
                return False
            asked, name = write.requested, write.shown_name
            raise forbidden(asked.group, asked.plural, name, str(error)) from None

    def outcomes(
        self, invocations: Iterable[Invocation], write: Write
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
        self, asked: Iterable[tuple[Hook, Question]], submission: Submission
    ) -> None:
        """Call webhooks, and remember their answers."""
        async with asyncio.TaskGroup() as group:
            for hook, question in asked:
                group.create_task(self._ask_one(hook, question, submission))

    async def _ask_one(
        self, hook: Hook, question: Question, submission: Submission
    ) -> None:
        outcome = await self._outcome(hook, question)
        submission.remember(question.subject, outcome)

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
