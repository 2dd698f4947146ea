"""The version of lakelatch: of the package, of `--version`, and in the snapshots that it writes."""

__version__ = "0.1.0"
