"""Controllers of groups of pods (SIG Scheduling).

``podgroupprotection`` keeps deleted groups while pods use them.
"""
