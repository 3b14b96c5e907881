"""Wrong usage of the command line, as tests expect it to end."""

from __future__ import annotations

from llm_marl_baselines import cli


def fails(capsys, args, *words, code=2):
    """The command fails with this exit code and says all the words, without a traceback."""
    capsys.readouterr()
    assert cli.main(args) == code
    said = capsys.readouterr()
    text = " ".join((said.out + said.err).split())
    for word in words:
        assert word in text, text
    assert "Traceback" not in text
