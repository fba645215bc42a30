"""`make bench`: whole crawls first, then the blocks they are made of."""

import sys

from benchmarks import crawls

sys.exit(crawls.main())
