"""From the number that metrics ask for to the number that is set; pure.

``decide`` takes the steps: ``windows`` holds a change back by the recommendations in
``history``, ``limits`` and ``rates`` bound it by the ``rules`` of a behavior.
"""
