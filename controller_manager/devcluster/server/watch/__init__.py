"""Watches: ``watching`` sends events, in the form that ``event_form`` returns."""
