"""The scale subresource of any kind that has one.

``scales`` reads and updates it. The context's `ResourceMapper` finds the resource of
a kind.
"""
