"""Every order of requests and faults, breadth first."""
