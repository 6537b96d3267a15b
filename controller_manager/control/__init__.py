"""Actors that several controllers share.

Here live claiming (adoption and release), expectations, pod creation and deletion,
slow start, what to do after taking over from another leader, the form of a decision,
feature gates of several controllers, the core that keeps a number of pods, and what
every namespace is to have. They act for a controller that hands itself over as an
argument; none of them knows which one that is.
"""
