"""Tags: names for snapshots, which keep the files of these after they have expired."""
