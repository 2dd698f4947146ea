"""The effects of one commit on a store, by the phases of the machine: collecting, uploading, publishing.

Owns: one class for each phase, over a state that they share. Must not know: the order of effects (the machine), threads and time
budgets (the driver).
"""
