"""Actors that several controllers share.

Here live claiming (adoption and release), expectations, read-your-own-writes,
pod creation and deletion, slow start, the core that keeps a number of pods, and
what every namespace is to have. They act for a controller that hands itself over
as an argument; none of them knows which one that is.
"""
