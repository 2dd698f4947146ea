"""What a request becomes on the base of one attempt."""
