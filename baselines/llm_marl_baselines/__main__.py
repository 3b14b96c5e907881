"""``python -m llm_marl_baselines``: the command ``llm-marl``, for launchers that start modules."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
