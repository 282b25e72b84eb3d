"""How Hypothesis draws: anew on every run, but the same examples in CI.

Time limits per example are off, because compilers and shared machines take their time.
"""

import os

from hypothesis import settings

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
