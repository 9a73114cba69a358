"""`python -m bench.overlay_routing`."""

import sys

from bench.overlay_routing.run import main

sys.exit(main())
