"""Two agents of ours in episodes of verifiers, played by a model behind a local OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import torch
import verifiers.v1 as vf
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

EPISODES = 8


def save_tiny_model(folder: str) -> None:
    """A random model of two layers that can write the symbols of the probes and nothing else."""
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["<unk>", "<eos>", *"ABCD"])}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", eos_token="<eos>", pad_token="<eos>")
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }} <eos> {% endfor %}"
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), eos_token_id=1, pad_token_id=1, **sizes)
    model = LlamaForCausalLM(config)
    # `transformers serve` takes a request's temperature, and samples only where the model says that it is sampled from.
    model.generation_config.update(do_sample=True, suppress_tokens=[0, 1])
    model.save_pretrained(folder)


@contextlib.contextmanager
def serving(model: str) -> Iterator[str]:
    """``transformers serve`` on a free port of this machine; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [Path(sys.executable).with_name("transformers"), "serve", model, "--host", "127.0.0.1", "--port", port]
    with subprocess.Popen([*command, "--device", "cpu", "--default-seed", "0"]) as server:
        try:
            while server.poll() is None:
                with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                    break
                time.sleep(1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


async def play(model: str, url: str) -> list[vf.Episode]:
    env = vf.load_environment(vf.resolve_env_config({"taskset": {"id": "team"}, "max_concurrent_agents": None}))
    context = vf.ModelContext(
        client=vf.EvalClientConfig(base_url=url, api_key_var="LOCAL_API_KEY"),
        model=model,
        sampling=vf.SamplingConfig(max_tokens=1, temperature=1.0),
    )
    async with env.serving():
        return [await env.run_episode(task, context) for task in env.taskset.take(EPISODES)]


def main() -> None:
    with tempfile.TemporaryDirectory() as model:
        save_tiny_model(model)
        with serving(model) as url:
            episodes = asyncio.run(play(model, url))
    for episode in episodes:
        if not episode.ok:
            raise SystemExit(f"an episode failed: {episode.errors or [trace.errors for trace in episode.traces]}")
        said = {t.agent.name: [node.message.content for node in t.nodes if node.sampled] for t in episode.traces}
        print(f"seed {episode.task.data.seed}: {said}, rewards {[t.reward for t in episode.traces]}")
    mean = sum(episode.traces[0].reward for episode in episodes) / len(episodes)
    print(
        f"trained nothing: verifiers played {len(episodes)} episodes with two agents over two turns, mean return "
        f"{mean:.2f}; training is prime-rl's part (GPUs and vLLM)"
    )


if __name__ == "__main__":
    main()
