"""May it still land on this base, and in which order?"""
