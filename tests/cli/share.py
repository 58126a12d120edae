"""How much of what repeats itself a build tries: all, or one of SHARE (tests/support/share.h says why)."""

import os

SHARE = max(1, int(os.environ.get("TANDEM_TEST_SHARE", "1")))
