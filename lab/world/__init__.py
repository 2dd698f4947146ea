"""A store as a value with its faults, the turns of the actors, the stage, and how tables are read there."""
