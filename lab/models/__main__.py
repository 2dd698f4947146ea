"""`python -m lakelatch.lab.models`: every scenario, and the story of each variant."""

from .riding_stories import main

main()
