"""Commands about whole tables, branches and tags."""
