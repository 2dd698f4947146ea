"""The version of lakelatch, used for the package, for `--version`, and in the snapshots that lakelatch writes."""

__version__ = "0.1.0"
