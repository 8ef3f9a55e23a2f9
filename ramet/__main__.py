"""``python -m ramet`` is the command line."""

from ramet.cli import main

if __name__ == "__main__":
    main()
