"""What stores are made of: folders, files that are written in parts, keys, and files of the user."""
