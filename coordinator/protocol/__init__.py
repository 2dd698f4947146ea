"""The commit protocol as data: what can happen (events), what is to be done (effects), and the table between them (machine)."""
