"""Intents: appends that lost a race and ask the next winner to carry them along (decision 71).

Must not know: how a commit is made, when an intent is registered. Start reading at `intent`, then `shelf` and `window`.
"""
