"""``--policy ROLE=...`` fills a seat; ``crossplay`` lets agents of different runs meet."""

import json

import pytest
import torch
import yaml

from llm_marl_baselines import cli, seats
from llm_marl_baselines import run as runs
from llm_marl_baselines.policies.base import Request
from llm_marl_baselines.rollout import collect
from llm_marl_baselines.settings import parse
from llm_marl_envs.errors import ConfigError, DataError

BASIC = "--env probe/same-word-v0 --model tiny --trackers [] --eval_episodes 8".split()


def train(folder, *extra, seed=0, steps=3):
    args = ["train", "magrpo", *BASIC, "--seed", str(seed), "--steps", str(steps), "--output", str(folder), *extra]
    assert cli.main(args) == 0
    return folder


def build(*extra, name="magrpo"):
    return runs.build(parse(name, [*BASIC, *extra]), None)


def answers(trainer, agent, number=20):
    asked = Request(agent, ({"role": "user", "content": "Answer with one of: A B C D."},), number)
    return [r.token_ids.tolist() for r in trainer.policy.generate([asked], seed=3)[0]]


def weights(trainer, agent):
    return {n: w.detach().clone() for n, w in trainer.policy._learner(agent).weights.items()}


def same(one, other):
    return set(one) == set(other) and all(torch.equal(one[n], other[n]) for n in one)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train(tmp_path_factory.mktemp("run") / "first", "--algorithm.group_size", "8", steps=40)


# -- what a seat starts as ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharing", ["isolated", "shared", "full"])
def test_a_seat_plays_as_the_run_left_it(tmp_path, sharing):
    run = train(tmp_path / "run", "--sharing", sharing, "--lora.rank", "3", steps=2)
    left, _ = runs.restore(run)
    for spec in (str(run), f"frozen:{run}"):
        seated = build("--policy", f"agent_1={spec}")
        assert answers(seated, "agent_1") == answers(left, "agent_1")
        assert seated.policy.trains("agent_1") == (not spec.startswith("frozen"))
        assert same(weights(seated, "agent_1"), weights(left, "agent_1"))
        assert answers(seated, "agent_2") == answers(build(), "agent_2")  # the other one is fresh


def test_another_roles_weights(trained):
    left, _ = runs.restore(trained)
    seated = build("--policy", f"agent_1=frozen:{trained}#agent_2")
    assert same(weights(seated, "agent_1"), weights(left, "agent_2"))


def test_a_frozen_model_is_the_model_without_adapter():
    seated = build("--policy", "agent_1=frozen:tiny")
    assert weights(seated, "agent_1") == {} and not seated.policy.trains("agent_1")
    assert seated.policy.learners == ["agent_2"]
    # A fresh adapter changes nothing, and rows of both kinds are sampled in one batch.
    assert answers(seated, "agent_1") == answers(build(), "agent_1")


@pytest.mark.parametrize("frozen", ["agent_1", "agent_2"])
def test_each_row_is_sampled_with_its_own_weights(trained, frozen):
    """A model as it is beside an adapter, whichever comes first: what was sampled is scored the same."""
    other = next(a for a in ("agent_1", "agent_2") if a != frozen)
    trainer = build("--policy", f"{frozen}=frozen:tiny", "--policy", f"{other}={trained}")
    batch = collect(trainer.policies, trainer.make_env, trainer.starts(0), trainer.algorithm.plan, seed=0)
    mine = [r for r, a in zip(batch.responses, batch.response_agent, strict=True) if batch.agents[a] == other]
    scored = trainer.policy.score(other, [r.prompt_ids for r in mine], [r.token_ids for r in mine], grad=False)
    for part in scored:
        for index, row, mask in zip(part.index, part.logprobs, part.mask, strict=True):
            assert row[mask].numpy() == pytest.approx(mine[int(index)].logprobs, abs=1e-4)
    together = trainer.policy.generate(
        [Request(a, ({"role": "user", "content": "Answer with one of: A B C D."},), 20) for a in trainer.agents], seed=3
    )
    asked_first = {a: [r.token_ids.tolist() for r in rows] for a, rows in zip(trainer.agents, together, strict=True)}
    assert asked_first[other] == answers(trainer, other)


def test_a_seat_keeps_the_kind_of_adapter_that_its_run_gave_it(tmp_path):
    first = train(tmp_path / "first", "--policy", "agent_1=tiny", "--lora.alpha", "64", "--lora.rank", "3", steps=2)
    left, _ = runs.restore(first)
    seated = build("--policy", f"agent_1=frozen:{first}")
    assert answers(seated, "agent_1") == answers(left, "agent_1")
    config = seated.policy._learners["agent_1"].base._peft.peft_config
    assert [c.lora_alpha for c in config.values()] == [64, 16]


@pytest.mark.parametrize("name", ["magrpo", "igrpo", "maac", "iac", "mappo"])
def test_a_frozen_partner_is_not_moved_and_the_other_learns(trained, tmp_path, name):
    args = ["--policy", f"agent_1=frozen:{trained}", "--algorithm.group_size", "8", "--output", str(tmp_path / "out")]
    settings = parse(name, [*BASIC, *args, "--steps", "30", "--eval_every", "-1"])
    trainer = runs.build(settings, None)
    before = weights(trainer, "agent_1")
    trainer.run = runs.create(settings)
    trainer.train()
    assert same(before, weights(trainer, "agent_1"))
    assert trainer.run_evaluation(greedy=False).scores.mean() >= 0.8
    assert not any("agent_1" in learner for learner in trainer.policy.learners)


def test_training_goes_on_from_a_run(trained):
    """A seat that is not frozen starts where the run ended, and moves."""
    trainer = build("--policy", f"agent_1={trained}", "--policy", f"agent_2={trained}")
    assert trainer.run_evaluation(greedy=False).scores.mean() >= 0.9
    assert trainer.policy.learners == ["agent_1", "agent_2"]


def test_a_run_with_seats_is_resumed_and_can_be_a_seat_itself(trained, tmp_path):
    second = train(tmp_path / "second", "--policy", f"agent_1=frozen:{trained}", seed=1)
    assert cli.main(["train", "--resume", str(second)]) == 0
    assert yaml.safe_load((second / "config.yaml").read_text())["policy"] == {"agent_1": f"frozen:{trained}"}
    left, _ = runs.restore(second)
    third = build("--policy", f"agent_1=frozen:{second}", "--policy", f"agent_2={second}")
    for agent in ("agent_1", "agent_2"):
        assert same(weights(third, agent), weights(left, agent))
    model = train(tmp_path / "model", "--policy", "agent_1=frozen:tiny", seed=1)
    fourth = build("--policy", f"agent_1=frozen:{model}")
    assert weights(fourth, "agent_1") == {}
    assert cli.main(["export", str(model), "--to", str(tmp_path / "adapters")]) == 0
    assert [p.name for p in (tmp_path / "adapters").iterdir()] == ["agent_2"]


def test_eval_takes_seats_too(trained, capsys):
    args = (
        f"eval --env probe/same-word-v0 --model tiny --episodes 30 --timing 0 --json --policy agent_1=frozen:{trained}"
    )
    assert cli.main([*args.split(), "--policy", f"agent_2={trained}"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "0.9" in str(found) or "1.0" in str(found)


def test_a_seat_is_found_from_another_folder(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(trained.parent)
    train(tmp_path / "told", "--policy", f"agent_1=frozen:{trained.name}", steps=1)
    assert yaml.safe_load((tmp_path / "told" / "config.yaml").read_text())["policy"]["agent_1"] == f"frozen:{trained}"
    monkeypatch.chdir(tmp_path)
    runs.restore(tmp_path / "told")


def test_who_plays_trained_policies_is_not_called_untrained(trained, capsys):
    args = f"eval --env probe/same-word-v0 --model tiny --episodes 2 --timing 0 --policy agent_1=frozen:{trained}"
    assert cli.main(args.split()) == 0
    said = capsys.readouterr().out
    assert "untrained" not in said and "agent_1=frozen:" in said


def test_the_announcement_says_who_is_frozen(trained, tmp_path, capsys):
    train(tmp_path / "told", "--policy", f"agent_1=frozen:{trained}", steps=1)
    assert "agent_1 (frozen), agent_2 (0.01 M)" in capsys.readouterr().err


# -- what is wrong ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--policy", "agent_3=frozen:tiny"], "policy names"),
        (["--policy", "agent_1"], "ROLE=RUN"),
        (["--policy", "agent_1="], "ROLE=RUN"),
        (["--policy", "agent_1=frozen:"], "name a model or a run"),
        (["--policy", "agent_1=nowhere#agent_2"], "holds no run"),
        (["--policy", "agent_1=frozen:./nowhere"], "holds no run"),
        (["--policy", "agent_1=frozen:a/b/c"], "holds no run"),
        (["--policy", "agent_1=frozen:tests/nowhere"], "holds no run"),
        (["--policy", "agent_1=frozen:tiny", "--policy", "agent_2=frozen:tiny"], "nothing to train"),
    ],
)
def test_errors_name_what_is_wrong(given, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    assert cli.main(["train", "magrpo", *BASIC, *given]) == 2
    said = capsys.readouterr().err
    assert words in " ".join(said.split()) and "Traceback" not in said


def test_a_role_that_the_run_lacks(trained):
    with pytest.raises(ConfigError, match=r"no policy of 'writer'.*It has: agent_1, agent_2.*#ROLE"):
        seats.resolve(f"frozen:{trained}", "writer")


def test_a_run_without_checkpoints(tmp_path):
    settings = parse("magrpo", [*BASIC, "--output", str(tmp_path / "run")])
    runs.create(settings)
    with pytest.raises(ConfigError, match="no checkpoint yet"):
        seats.resolve(str(tmp_path / "run"), "agent_1")


def test_weights_of_another_shape_are_refused(trained):
    seat = seats.resolve(str(trained), "agent_1")
    with pytest.raises(DataError, match="names or shapes differ"):
        from dataclasses import replace

        from llm_marl_baselines.policies.bases import Lora
        from llm_marl_baselines.policies.hf import HFPolicies

        HFPolicies(["agent_1"], "tiny", seats={"agent_1": replace(seat, lora=Lora(rank=2))})


# -- cross-play ---------------------------------------------------------------------------------------------------------


def test_runs_that_agreed_on_different_words_fail_together(tmp_path, capsys):
    group = ("--algorithm.group_size", "8")
    members = [train(tmp_path / f"seed{s}", *group, seed=s, steps=40) for s in (0, 1)]
    capsys.readouterr()
    assert cli.main(["crossplay", *map(str, members), "--json", "--episodes", "32"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["self_play"] >= 0.9 and found["cross_play"] <= 0.1
    assert found["score"][0][1] <= 0.1 and found["low"][0][0] <= found["score"][0][0] <= found["high"][0][0]
    assert cli.main(["crossplay", *map(str, members), "--greedy"]) == 0
    said = capsys.readouterr().out
    assert "self-play 1.000, cross-play 0.000" in said and "(greedy)" in said


def test_crossplay_refuses_what_cannot_meet(trained, tmp_path, capsys):
    assert cli.main(["crossplay", str(trained)]) == 2
    assert "at least two" in capsys.readouterr().err
    other = tmp_path / "other"
    args = ["train", "magrpo", "--env", "probe/own-word-v0", "--model", "tiny", "--trackers", "[]", "--steps", "1"]
    assert cli.main([*args, "--output", str(other)]) == 0
    capsys.readouterr()
    assert cli.main(["crossplay", str(trained), str(other)]) == 2
    assert "differs" in (said := capsys.readouterr().err) and "env" in said
