"""What one request meets: deadlines, refusals, answers, and the patience with each."""
