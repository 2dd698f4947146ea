"""`python -m lakelatch`: the same as the command `lakelatch`."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
