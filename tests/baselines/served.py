"""``transformers serve`` with the tiny model on a free port: once for all tests of a session, offline."""

from __future__ import annotations

import atexit
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from llm_marl_baselines.policies import tiny

NAME = "tiny"
TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


def write_model(folder: Path) -> None:
    """The tiny model as a folder, with a chat template (the server insists on one). It samples where it is asked to:
    without ``do_sample`` the server answers greedily at any temperature, and by default it would keep 50 tokens only."""
    model, tokenizer = tiny.load_model(), tiny.load_tokenizer()
    tokenizer.chat_template = TEMPLATE
    model.generation_config.update(do_sample=True, top_k=0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@functools.cache
def folder() -> Path:
    """Where the model lies that is served."""
    place = tempfile.TemporaryDirectory()
    atexit.register(place.cleanup)
    write_model(Path(place.name) / NAME)
    return Path(place.name) / NAME


@functools.cache
def url() -> str:
    """The server's URL; started at the first call, ended with the session."""
    for needed in ("openai", "fastapi", "uvicorn"):
        pytest.importorskip(needed)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (folder().parent / "log").open("w+")
    # The working directory makes the folder's name the model's name.
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", NAME]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    offline = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "NO_PROXY": "127.0.0.1"}
    process = subprocess.Popen(command, cwd=folder().parent, env=os.environ | offline, stdout=log, stderr=log)
    atexit.register(lambda: (process.kill(), process.wait()))
    for _ in range(1200):  # it takes 10 s on an idle machine
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
                if json.load(answer)["status"] == "ok":
                    return f"http://127.0.0.1:{port}/v1"
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    log.seek(0)
    raise AssertionError(f"transformers serve did not start:\n{log.read()}")
