"""Intents: appends that lost a race and ask the next winner to carry them along (decision 71).

Owns: the intent and its file, which of them a leader may carry, what a snapshot says of those that it carries, and what became
of an intent. Must not know: the machine, how a commit is made, when an intent is registered.
Start reading at `intent`, then `shelf` and `window`.
"""
