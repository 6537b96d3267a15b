"""Says why an object is not as its spec wants it: ``controller-manager explain``.

It reads only. It runs the pure decisions of the controllers on the objects around the
target, and returns one chain from the symptom to the root cause.
"""
