"""Other libraries on these environments, and their games as environments of ours. Each module needs its library.

===============  ============================  =========================================================================
module           extra                         what it has
===============  ============================  =========================================================================
``torchrl``      ``llm-marl-envs[torchrl]``    ``TextEnv``: any parallel text environment as a TorchRL ``EnvBase``
``trl``          ``llm-marl-envs[trl]``        ``TeamRollout``: TRL's ``GRPOTrainer`` trains one agent among partners
``textarena``    ``llm-marl-envs[textarena]``  games of TextArena as parallel environments, and ours as TextArena's
``openai``       ``llm-marl-envs[openai]``     any OpenAI-compatible endpoint, which answers or advises
===============  ============================  =========================================================================

Nothing is imported here: ``from llm_marl_envs.integrations.torchrl import TextEnv``.
"""
