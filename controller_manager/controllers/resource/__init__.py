"""Controllers of devices that pods claim (WG Device Management).

``resourceclaim`` creates and reserves claims; ``resourcepoolstatusrequest`` reports the
available devices of pools.
"""
