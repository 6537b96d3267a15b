"""What makes, attaches, mounts and resizes volumes, as far as it is no controller.

On a real cluster these are the external provisioner, attacher and resizer of a CSI
driver, a part of the scheduler, and a part of each kubelet. The controllers bind claims
and ask for attachments.
"""
