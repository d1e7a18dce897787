"""Runs the `pollerd` command for `python -m pollerd`."""

from pollerd.cli import main

if __name__ == "__main__":
    main()
