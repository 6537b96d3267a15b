"""Which pods a target has, and which other autoscalers select them.

``pods`` selects them by the selector of the target's scale, ``overlap`` remembers the
selectors of all autoscalers.
"""
