"""One file per command of ``llm-marl``; each has a ``main(args) -> exit code``."""
