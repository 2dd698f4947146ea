"""Where bytes live: one adapter per store, behind one small protocol. Nothing here knows what a table is."""
