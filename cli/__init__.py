"""What a person types: `lakelatch COMMAND URL`.

Owns: arguments, printing, exit codes. Must not know: how anything is done: every command is a few lines over the public
surface. Invariant: importing this package costs nothing; pyarrow, rich and store clients are imported when a command runs.
"""
