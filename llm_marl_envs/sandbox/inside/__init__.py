"""What runs inside the isolation layer, on both sides of the border. Standard library only: nothing else is there.

Untrusted side: ``zygote`` forks ``parser``, which reads programs and executes none, and a ``child`` for every
program; all are confined by ``seccomp``, and ``probing`` tries to get out first. Trusted side: ``checker`` holds the
tests, which ``splitting`` takes apart and ``tracking`` keeps count of, and gets results through ``calling`` and
``processes``. Between them ``channel`` carries what ``codec`` makes of values.

Reading a program: ``extraction`` finds the code, ``structure`` says what is defined, ``usage`` (with ``reading``) how
helpers are used, ``wrapping`` (with ``symbols``) whether that is all there is; ``trees``, ``running`` and ``scopes``
are what these share.
"""
