"""`python -m pollerd` is the same as the `pollerd` command."""

from pollerd.cli import main

if __name__ == "__main__":
    main()
