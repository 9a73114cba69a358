"""`python -m bench.planner`."""

import sys

from bench.planner.run import main

sys.exit(main())
