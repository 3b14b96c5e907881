"""Training language models on llm-marl-envs with multi-agent reinforcement learning."""

__version__ = "0.1.0"
