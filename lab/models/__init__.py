"""Models: protocols tried out as explicit states before they are built, each with the tempting variants that break it.

Run: `python -m lakelatch.lab.models`. Must not know: the shipped code, which the scenarios of the lab explore.
"""
