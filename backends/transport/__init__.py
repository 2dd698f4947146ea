"""The fast transport: requests through obstore, and which store and process may use it."""
