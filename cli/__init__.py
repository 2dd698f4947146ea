"""The command line: `lakelatch COMMAND URL`.

Owns: arguments, printing and exit codes. Must not know: how the work is done. Every command is a few lines that call the public
API. Invariant: importing this package is cheap. pyarrow, rich and the store clients are imported only when a command runs.
"""
