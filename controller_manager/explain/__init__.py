"""Says why an object is not as its spec wants it: ``controller-manager explain``.

It reads only. It runs the pure decisions of the controllers on the objects around the
target, and returns one chain from the symptom to the root cause.

- ``answer``: the answer about one object as text
- ``autoscalers``: autoscalers that do not scale
- ``budgets``: disruption budgets that block a drain
- ``cause``: a cause, an explanation, and their states
- ``claim_use``: deleted claims that pods still use
- ``claims``: persistent volume claims without a volume
- ``condition_causes``: a cause that a condition shows
- ``container``: a container, its spec and its status
- ``containers``: containers that do not run, or are not ready
- ``creation``: pods that the API server refuses
- ``cron_jobs``: the next run, and runs that did not start or are not complete
- ``daemon_sets``: the nodes without a pod
- ``deletion``: objects and namespaces that stay although they are deleted
- ``events``: the events about an object
- ``evictions``: pods that a taint of their fixed node evicts
- ``explainer``: explains one object, or all of a namespace
- ``failures``: events that repeat a failure
- ``finalizers``: finalizers that hold an object
- ``following``: follows explanations until nothing is wrong
- ``inaction``: objects whose controller does nothing
- ``items``: an object with all its fields
- ``jobs``: jobs that are not complete
- ``kinds``: the kinds with explanations of their own
- ``managed_fields``: the managers of fields
- ``mutated``: new objects that admission changes
- ``new_pods``: the pods that a rollout waits for
- ``nodes``: nodes that do not report, or cannot be drained
- ``other_kinds``: objects of all other kinds, such as custom resources
- ``outdated``: pods with an old template that stay
- ``pauses``: rollouts that are paused
- ``pods``: pods that are not available
- ``printing``: characters that may be printed
- ``quotas``: quotas that are full
- ``replicas``: owners that want a number of pods
- ``report``: prints explanations
- ``rivals``: two managers of one field, and selectors that overlap
- ``rollout``: deployments
- ``rollout_state``: the state of a rollout
- ``roots``: the root cause as one code
- ``scale_targets``: the targets of autoscalers, and pods of others that they count
- ``scaling``: workloads that want no pods
- ``scheduling``: pods without a node
- ``selecting``: the objects that selectors match
- ``services``: services without endpoints
- ``spec_causes``: a cause that a field of the spec shows
- ``starting``: containers that their kubelet has not started
- ``stateful_sets``: stateful sets that wait for an ordinal
- ``summary``: the status of an object in a few words
- ``suspension``: jobs and cron jobs that are suspended
- ``target``: the object to explain
- ``view``: reads objects on demand
"""
