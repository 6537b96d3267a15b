"""The doctor: says before a swap what would not work, and why. It writes nothing.

The descriptors of the controllers have their needs: no module here knows a particular
controller.
"""
