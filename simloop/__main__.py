"""`python -m simloop` is `simloop`."""

from simloop.cli import main

if __name__ == "__main__":
    main()
