"""What runs inside the isolation layer, on both sides of the border. Standard library only: nothing else is there.

``zygote`` forks ``child`` processes, which hold a model's program (``extraction`` and ``structure`` read it first);
``checker`` holds the tests (``splitting`` takes them apart) and calls the program through ``channel`` and ``codec``.
"""
