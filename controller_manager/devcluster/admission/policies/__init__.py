"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy.

``bindings`` finds the policies, their bindings and their parameters for a write;
``variables`` evaluates the variables of a policy; ``validations`` decides about one
policy with one parameter, ``mutations`` changes an object, ``cel_json`` converts
values; ``validating`` and ``mutating`` are the plugins. Upstream:
k8s.io/apiserver/pkg/admission/plugin/policy.
"""
