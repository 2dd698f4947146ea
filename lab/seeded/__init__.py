"""Many actors in virtual time, drawn by a seed."""
