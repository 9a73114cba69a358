"""`python -m latecomer` is the command `latecomer`."""

from latecomer.cli.main import main

if __name__ == "__main__":
    main()
