"""What is wrapped round any store: counting, faults, and races."""
