"""`python -m local`: the entry of `make run`, which can be stopped at any time."""

import sys

if __name__ == "__main__":
    try:
        # What it needs takes seconds to import, within which somebody may press Ctrl-C.
        from local.demo import main

        code = main()
    except KeyboardInterrupt:
        print("\nstopped")
        code = 130
    sys.exit(code)
