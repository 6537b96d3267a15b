"""The doctor: says before a swap what would not work, and why. It writes nothing.

The descriptors of the controllers have their needs: no module here knows a particular
controller. The checks are ``accounts`` (the service accounts of the controllers),
``controllers`` (the controllers that do not start), ``discovery`` (the API groups that
cannot be read), ``endpoints`` (the authentication and authorization of callers),
``keys`` (the files that flags name), ``leases`` (the leader), ``pods`` (the controllers
that make this pod), ``resources`` (the resources that the server lacks), ``rights``
(the permissions of the manager itself) and ``server`` (its health and version). The
other modules:

- ``checks``: all checks, in the order of the report
- ``examination``: the input of the checks
- ``finding``: the finding of a check
- ``report``: prints the findings
- ``reviews``: asks the API server for the permissions of an identity
- ``running``: runs the checks, each with a timeout of its own
- ``static_pod``: the static pod of kube-controller-manager, and ours for it
"""
