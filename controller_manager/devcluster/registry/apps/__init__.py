"""The kinds of the group apps, one file each.

Kinds: ``controllerrevision``, ``daemonset``, ``deployment``, ``replicaset``,
``statefulset``. Shared: ``daemonset_validation`` (specs), ``statefulset_validation``
(specs), ``template_generation`` (an annotation of daemon sets).
"""
