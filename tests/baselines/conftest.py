"""Tests of the baselines run on one thread: small products gain nothing from two, and a busy machine makes them crawl."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch

torch.set_num_threads(1)
