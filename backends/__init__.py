"""Storage: one adapter per kind of store, all of them implementing the `Store` protocol. Nothing here knows about tables."""
