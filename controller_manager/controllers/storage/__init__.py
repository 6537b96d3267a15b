"""Controllers of volumes and claims (SIG Storage).

``volumebinder`` binds claims and volumes, ``attachdetach`` attaches volumes to nodes,
``volumeexpander`` requests the expansion of volumes, and ``ephemeralvolume`` creates
claims for pods. ``volumeprotection``, ``claimprotection`` and
``attributesclassprotection`` keep deleted objects while they are in use.
``selinuxwarning`` warns of pods that cannot share a volume.
"""
