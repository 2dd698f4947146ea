"""What a session and its workers are like."""
