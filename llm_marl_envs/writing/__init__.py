"""Writing tasks: two agents write about one source text, and formulas over both texts give the joint reward.

``tldr``      ``writing/tldr-v0``: a short and a long summary of a post
``arxiv``     ``writing/arxiv-v0``: the two halves of an introduction, from an abstract
``levels``    the four-level reward that both share, with all its constants
``metrics``   what is measured: words, transitions, overlap, grounding

No network, no model and no judge takes part: the same texts earn the same score on any machine.
"""
