"""Mutation testing: small bugs are planted in the code at random, one at a time, and the fast tests must notice each."""
