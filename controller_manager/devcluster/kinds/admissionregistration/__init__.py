"""The kinds of the group admissionregistration.k8s.io, one file each.

Kinds: ``mutatingadmissionpolicy``, ``mutatingadmissionpolicybinding``,
``mutatingwebhookconfiguration``, ``validatingadmissionpolicy``,
``validatingadmissionpolicybinding``, ``validatingwebhookconfiguration``. Shared:
``compilation`` (types of expressions), ``expressions`` (those of policies),
``match_conditions`` (of webhooks and policies), ``matching`` (resources of a policy),
``param_references`` (parameters of a policy), ``policy_bindings`` (fields of both kinds
of bindings), ``policy_fields`` (fields of both kinds of policies), ``rules`` (of
webhooks and policies), ``webhook_strategy`` (strategy of webhook configurations),
``webhooks`` (defaults and validation).
"""
