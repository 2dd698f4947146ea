"""The commit protocol as data: events (what can happen), effects (what to do next), and the machine between them."""
