"""What a table is: values, bytes, rules. No I/O, clock, randomness, threads or environment in this folder."""
