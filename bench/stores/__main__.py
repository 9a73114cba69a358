"""`python -m bench.stores`."""

import sys

from bench.stores.run import main

sys.exit(main())
