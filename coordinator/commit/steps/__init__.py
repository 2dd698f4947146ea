"""The effects of one commit on a store: one class for each phase of the machine, over a state that they share.

Must not know: the order of effects (the machine), threads and time budgets (the driver).
"""
