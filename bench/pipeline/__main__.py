"""`python -m bench.pipeline`."""

import sys

from bench.pipeline.run import main

sys.exit(main())
