"""Tables that a test puts together file by file, without any writer and without rows.

Owns: `snapshots`, for what the order of snapshots decides; `histories`, for what one file more or less proves; `tables`, with
manifests and lists that can be read. Must not know: what the tests ask.
"""
