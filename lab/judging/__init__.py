"""What must hold: in each state, and of a whole history."""
