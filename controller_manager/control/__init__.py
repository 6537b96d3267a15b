"""Actors that several controllers share.

Here live claiming (adoption and release), expectations, read-your-own-writes,
pod creation and deletion, and slow start. They act for a controller that hands
itself over as an argument; none of them knows which one that is.
"""
