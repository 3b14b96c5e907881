"""A third party's isolation backend, with a hole in it."""

from pathlib import Path

from llm_marl_envs.sandbox import worker
from llm_marl_envs.sandbox.isolation.bubblewrap import Strict


class Leaky(Strict):
    """Shows a folder of the host."""

    name = "leaky"

    def command(self, code, arguments):
        words = super().command(code, arguments)
        folder = str(Path(worker.__file__).resolve().parent)
        at = words.index("--remount-ro")
        return [*words[:at], "--ro-bind", folder, folder, *words[at:]]
