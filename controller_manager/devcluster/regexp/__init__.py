"""Regular expressions as Go's package regexp has them, matched in linear time.

API servers take patterns in the syntax of RE2. Python's `re` has another syntax, and
takes hours for some patterns. Here ``parser`` reads a pattern into the nodes of
``nodes``, with the classes of ``characters``; ``problems`` has its errors. ``matching``
tells whether a text matches, in a time that grows with the length of the text times the
size of the pattern.
"""
