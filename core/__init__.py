"""The format's values, bytes and rules. Nothing in this folder uses I/O, clocks, randomness, threads or the environment."""
