"""SelfSubjectRulesReview: asks what the user of the request may do in a namespace."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.scheme.statuses import bad_request
from controller_manager.devcluster.server.registry.rest_storage import Call, RESTStorage

_RESOURCE_FIELDS: Final = ("verbs", "apiGroups", "resources", "resourceNames")
_PATH_FIELDS: Final = ("verbs", "nonResourceURLs")


def _part(rule: Mapping[str, Any], fields: tuple[str, ...]) -> JSON:
    return {name: rule[name] for name in fields if rule.get(name)}


def review_own_rules(call: Call, obj: JSON) -> JSON:
    """Return the rules; raises Refusal without a namespace."""
    namespace = (obj.get("spec") or {}).get("namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    found = call.authorizer.rules_for(call.user, namespace)
    status: JSON = {
        "resourceRules": [
            _part(each, _RESOURCE_FIELDS)
            for each in found.rules
            if each.get("resources")
        ],
        "nonResourceRules": [
            _part(each, _PATH_FIELDS)
            for each in found.rules
            if each.get("nonResourceURLs")
        ],
        "incomplete": False,
    }
    if found.errors:
        status["evaluationError"] = found.error
    return {
        "kind": call.kind.kind,
        "apiVersion": call.kind.api_version,
        "metadata": {},
        "spec": {},
        "status": status,
    }


KIND: Final = kind_of("authorization.k8s.io/v1", "selfsubjectrulesreviews")
REST_STORAGE: Final = RESTStorage(KIND.resource, create=review_own_rules)
