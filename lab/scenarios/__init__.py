"""The small worlds that the explorer plays."""
