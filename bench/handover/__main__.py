"""`python -m bench.handover`."""

from bench.handover.run import main

if __name__ == "__main__":
    main()
