"""Tables as frames."""
