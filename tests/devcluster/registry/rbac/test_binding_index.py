"""The index of bindings tells the same as a look at all bindings."""

import random
from collections.abc import Sequence

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.security import Attributes, Decision, User
from controller_manager.devcluster.registry.rbac_authorizer import (
    BindingIndex,
    RBACAuthorizer,
    applying_subject,
)
from controller_manager.devcluster.storage import Storage

GROUP = "rbac.authorization.k8s.io"
SUBJECTS: list[JSON] = [
    {"kind": "User", "name": "jane"},
    {"kind": "User", "name": "system:serviceaccount:b:bot"},
    {"kind": "Group", "name": "devs"},
    {"kind": "Group", "name": "ops"},
    {"kind": "ServiceAccount", "name": "bot", "namespace": "b"},
    {"kind": "ServiceAccount", "name": "bot"},
    {"kind": "Robot", "name": "jane"},
]
USERS = [
    User("jane", groups=("devs", "system:authenticated")),
    User("bob", groups=("ops", "devs")),
    User("system:serviceaccount:b:bot", groups=()),
    User("nobody", groups=()),
]


def binding(rng: random.Random, namespace: str, name: str) -> JSON:
    subjects = rng.sample(SUBJECTS, rng.randrange(4))
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"metadata": metadata, "subjects": subjects}


@pytest.mark.parametrize("seed", range(10))
def test_the_index_follows_every_change(seed: int) -> None:
    rng, storage = random.Random(seed), Storage()
    collection = storage.collection(f"rolebindings.{GROUP}")
    collection.put(("a", "old"), binding(rng, "a", "old"))
    index = BindingIndex(storage, "rolebindings")
    for _ in range(60):
        key = rng.choice("ab"), rng.choice("wxyz")
        if collection.get(key) and rng.random() < 0.4:
            collection.remove(key)
        else:
            collection.put(key, binding(rng, *key))
        user, namespace = rng.choice(USERS), rng.choice("ab")
        expected = {
            each.obj["metadata"]["name"]
            for each in collection
            if each.obj["metadata"]["namespace"] == namespace
            and applying_subject(each.obj, user, namespace)
        }
        found = [each["metadata"]["name"] for each in index.of(user, namespace)]
        assert sorted(found) == sorted(expected)


class Counted(RBACAuthorizer):
    """Counts the bindings whose role it reads."""

    count = 0

    def rules_of(self, reference: JSON, namespace: str) -> Sequence[JSON]:
        """Count, and return the rules."""
        self.count += 1
        return super().rules_of(reference, namespace)


def test_a_decision_looks_at_the_bindings_of_its_user_only() -> None:
    """Among 10,000 bindings of others, one is read."""
    storage = Storage()
    for number in range(10_000):
        name = f"user-{number}"
        storage.collection(f"rolebindings.{GROUP}").put(
            ("a", name),
            {
                "metadata": {"name": name, "namespace": "a"},
                "roleRef": {"kind": "Role", "name": "reader"},
                "subjects": [{"kind": "User", "name": name}],
            },
        )
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
    role = {"metadata": {"name": "reader", "namespace": "a"}, "rules": rules}
    storage.collection(f"roles.{GROUP}").put(("a", "reader"), role)
    authorizer = Counted(storage)
    attributes = Attributes("get", resource="pods", namespace="a")
    assert authorizer.decide(User("user-7"), attributes) == Decision(
        is_allowed=True,
        reason='RBAC: allowed by RoleBinding "user-7/a" of Role "reader" to User '
        '"user-7"',
    )
    assert not authorizer.allows(User("nobody"), attributes)
    assert authorizer.count == 1
