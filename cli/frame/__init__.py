"""What all commands share: arguments, output, exit codes, completion."""
