"""admissionregistration.k8s.io/v1: webhooks; the fields of policies that are read."""

from controller_manager.api.meta import (
    APIStruct,
    PartialMetadata,
    PartialObject,
    Projection,
    Resource,
)


class PolicyMeta(PartialMetadata, frozen=True):
    """The metadata of a policy."""

    generation: int = 0


class ParamKind(APIStruct, frozen=True):
    """The kind of the objects that parameterise a policy."""

    api_version: str = ""
    kind: str = ""


class ResourceRule(APIStruct, frozen=True):
    """Resources that a policy matches; ``*`` is any."""

    api_groups: tuple[str, ...] | None = None
    api_versions: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None


class MatchResources(APIStruct, frozen=True):
    """The resources that a policy matches."""

    resource_rules: tuple[ResourceRule, ...] | None = None


class Validation(APIStruct, frozen=True):
    """An expression that must be true, and one for the message if it is not."""

    expression: str = ""
    message_expression: str = ""


class Variable(APIStruct, frozen=True):
    """An expression with a name, for the expressions after it."""

    name: str = ""
    expression: str = ""


class ValidatingAdmissionPolicySpec(APIStruct, frozen=True):
    """The matched resources, the parameters, and the expressions of a policy."""

    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    validations: tuple[Validation, ...] | None = None
    variables: tuple[Variable, ...] | None = None


class ValidatingAdmissionPolicyStatus(APIStruct, frozen=True):
    """The generation of a policy that was checked last."""

    observed_generation: int = 0


class ValidatingAdmissionPolicy(Projection, frozen=True):
    """A policy that validates objects before they are stored."""

    metadata: PolicyMeta = PolicyMeta()
    spec: ValidatingAdmissionPolicySpec = ValidatingAdmissionPolicySpec()
    status: ValidatingAdmissionPolicyStatus = ValidatingAdmissionPolicyStatus()


VALIDATING_ADMISSION_POLICIES: Resource[ValidatingAdmissionPolicy] = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    ValidatingAdmissionPolicy,
    namespaced=False,
)

VALIDATING_WEBHOOK_CONFIGURATIONS: Resource[PartialObject] = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    PartialObject,
    namespaced=False,
)

MUTATING_WEBHOOK_CONFIGURATIONS: Resource[PartialObject] = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    PartialObject,
    namespaced=False,
)
