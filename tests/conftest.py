"""What holds for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# No deadlines, since a busy machine is no fault; in CI the same examples each time, so that a failure is one of the change.
settings.register_profile("here", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("here")
