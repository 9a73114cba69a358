"""`python -m bench.overlay`."""

import sys

from bench.overlay.run import main

sys.exit(main())
