"""`python -m bench.broker`."""

import sys

from bench.broker.run import main

sys.exit(main())
