"""`python -m bench.location`."""

import sys

from bench.location.run import main

sys.exit(main())
