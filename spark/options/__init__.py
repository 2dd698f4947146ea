"""What a caller, a catalog or a session asks for."""
