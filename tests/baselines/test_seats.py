"""``--policy ROLE=...`` fills a seat; ``crossplay`` lets agents of different runs meet."""

import io
import json
from pathlib import Path

import players
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from llm_marl_baselines import cli, seats, specs
from llm_marl_baselines import run as runs
from llm_marl_baselines.policies.base import Request
from llm_marl_baselines.policies.bases import Base
from llm_marl_baselines.response_time import measure
from llm_marl_baselines.rollout import collect
from llm_marl_baselines.settings import parse
from llm_marl_envs.errors import ConfigError, DataError, LlmMarlError

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


# -- what was exported --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "out"
    assert cli.main(["export", str(trained), "--to", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("part", ["", "/agent_1", "#agent_1"])
def test_an_exported_adapter_answers_bit_for_bit_as_the_run(trained, exported, part):
    left, _ = runs.restore(trained)
    for spec in (f"{exported}{part}", f"frozen:{exported}{part}"):
        seated = build("--policy", f"agent_1={spec}")
        assert same(weights(seated, "agent_1"), weights(left, "agent_1"))
        assert answers(seated, "agent_1") == answers(left, "agent_1")
        assert seated.policy.trains("agent_1") == (not spec.startswith("frozen"))
    asked = [Request("agent_1", ({"role": "user", "content": "Answer with one of: A B C D."},), 20)]
    one, other = (t.policy.generate(asked, seed=3)[0] for t in (seated, left))
    assert all(a.logprobs.tobytes() == b.logprobs.tobytes() for a, b in zip(one, other, strict=True))


def test_an_adapter_of_another_agent_or_kind(trained, exported, tmp_path):
    left, _ = runs.restore(trained)
    assert same(weights(build("--policy", f"agent_1={exported}#agent_2"), "agent_1"), weights(left, "agent_2"))
    odd = train(
        tmp_path / "odd", "--lora.rank", "3", "--lora.alpha", "7", "--lora.target_modules", "all-linear", steps=2
    )
    assert cli.main(["export", str(odd), "--to", str(tmp_path / "out")]) == 0
    seated, left = build("--policy", f"agent_1=frozen:{tmp_path / 'out'}"), runs.restore(odd)[0]
    assert answers(seated, "agent_1") == answers(left, "agent_1")
    assert same(weights(seated, "agent_1"), weights(left, "agent_1"))


def test_a_whole_model_that_was_exported(tmp_path):
    run = train(tmp_path / "run", "--sharing", "full", "--optim.lr", "1e-2", steps=2)
    assert cli.main(["export", str(run), "--to", str(tmp_path / "out")]) == 0
    seated, left = build("--policy", f"agent_1=frozen:{tmp_path / 'out'}"), runs.restore(run)[0]
    assert answers(seated, "agent_1") == answers(left, "agent_1")
    assert not seated.policy.has_weights("agent_1")


def test_the_model_too_may_be_what_was_trained(trained, exported, tmp_path, monkeypatch, capsys):
    left, _ = runs.restore(trained)
    env = ["eval", "--env", "probe/same-word-v0", "--episodes", "4", "--timing", "0", "--json", "--model"]
    monkeypatch.chdir(exported.parent)
    for model in (str(trained), f"frozen:{trained}", exported.name):
        assert cli.main([*env, model]) == 0
        told = json.loads(capsys.readouterr().out)["groups"][0]
        assert told["sampled"]["mean"]["score"]["value"] >= 0.9 and told["label"].startswith("trained before")
    settings = parse("magrpo", ["--env", "probe/same-word-v0", "--model", exported.name])
    assert settings.train.model == str(exported)  # found from any folder
    trainer = runs.build(settings, None)
    assert trainer.policy.learners == ["agent_1", "agent_2"]
    assert same(weights(trainer, "agent_2"), weights(left, "agent_2"))
    further = tmp_path / "further"
    args = [
        "train",
        "magrpo",
        "--env",
        "probe/same-word-v0",
        "--model",
        str(trained),
        "--steps",
        "1",
        "--trackers",
        "[]",
    ]
    assert cli.main([*args, "--output", str(further)]) == 0
    assert cli.main(["train", "--resume", str(further)]) == 0
    assert same(
        weights(build("--policy", f"agent_1={further}"), "agent_1"), weights(runs.restore(further)[0], "agent_1")
    )


def test_the_model_below_an_adapter(exported, tmp_path):
    """Built-in models keep their own name, though peft is told the hub's, whose weights differ; else peft's name counts,
    so that it can be mended where a model has moved."""
    file, config = "adapter_model.safetensors", "adapter_config.json"
    told = json.loads((exported / "agent_1" / config).read_text()) | {"base_model_name_or_path": "owner/name"}
    (tmp_path / config).write_text(json.dumps(told))
    (tmp_path / file).write_bytes((exported / "agent_1" / file).read_bytes())
    assert seats.resolve(str(tmp_path), "agent_1").model == "tiny"
    tensors = load_file(tmp_path / file)
    for metadata in ({"format": "pt"}, {"format": "pt", "llm_marl_base": "moved/away"}):
        save_file(tensors, tmp_path / file, metadata=metadata)
        assert seats.resolve(str(tmp_path), "agent_1").model == "owner/name"
    del told["base_model_name_or_path"]
    (tmp_path / config).write_text(json.dumps(told))
    with pytest.raises(ConfigError, match="base_model_name_or_path is missing"):
        seats.resolve(str(tmp_path), "agent_1")


def test_adapters_that_cannot_be_taken(exported, tmp_path):
    config = json.loads((exported / "agent_1" / "adapter_config.json").read_text())

    def changed(**values):
        folder = tmp_path / "changed"
        folder.mkdir(exist_ok=True)
        (folder / "adapter_config.json").write_text(json.dumps(config | values))
        (folder / "adapter_model.safetensors").write_bytes(
            (exported / "agent_1" / "adapter_model.safetensors").read_bytes()
        )
        return f"agent_1={folder}"

    for values, words in (
        ({"peft_type": "IA3"}, "kind 'IA3'"),
        ({"use_rslora": True}, "use_rslora=True.*Merge it"),
        ({"alpha_pattern": {"q_proj": 3}}, "alpha_pattern"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
    ):
        with pytest.raises(ConfigError, match=words):
            build("--policy", changed(**values))
    with pytest.raises(DataError, match="names or shapes differ"):
        build("--policy", changed(r=5))
    with pytest.raises(DataError, match="names or shapes differ"):
        build("--policy", changed(target_modules=["q_proj"]))
    spec = changed()
    (tmp_path / "changed" / "adapter_model.safetensors").write_bytes(b"short")
    with pytest.raises(DataError, match="cannot be read.*Export it again"):
        build("--policy", spec)
    (tmp_path / "changed" / "adapter_model.safetensors").unlink()
    with pytest.raises(DataError, match="cannot be read"):
        build("--policy", spec)
    with pytest.raises(ConfigError, match=r"holds adapters of agent_1, agent_2, but none of 'writer'.*#NAME"):
        seats.resolve(str(exported), "writer")


# -- policies without weights -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("thing", ["say_a", "SaysA", "says_a", "Callable"])
def test_policies_of_third_parties(thing, capsys):
    args = "eval --env probe/same-word-v0 --episodes 2 --timing 1 --json".split()
    assert cli.main([*args, "--model", f"players:{thing}"]) == 0
    told = json.loads(capsys.readouterr().out)["groups"][0]
    assert told["sampled"]["mean"]["score"]["value"] == 1 and told["sampled"]["mean"]["tokens"]["value"] == 0
    trainer = build("--policy", f"agent_1=frozen:players:{thing}")
    assert trainer.policy.learners == ["agent_2"] and list(trainer.others) == ["agent_1"]


def test_one_object_answers_for_all_that_name_the_same():
    before = players.SaysA.made
    trainer = runs.build(parse("magrpo", [*BASIC[:2], "--model", "players:SaysA", "--steps", "0"]), None)
    assert players.SaysA.made == before + 1
    assert trainer.policies["agent_1"] is trainer.policies["agent_2"]
    assert trainer.policy.agents == () and trainer.policy.describe()["learners"] == {}


def test_a_run_with_a_function_is_resumed_exported_and_seated(tmp_path, capsys):
    run = train(tmp_path / "run", "--policy", "agent_2=players:say_a", "--algorithm.group_size", "8", steps=30)
    assert "never trained: agent_2 (players:say_a)" in capsys.readouterr().err
    trainer, _ = runs.restore(run)
    assert trainer.run_evaluation(greedy=True).scores.mean() == 1  # it has learned to say A
    assert cli.main(["train", "--resume", str(run)]) == 0
    seated = build("--policy", f"agent_1={run}", "--policy", f"agent_2={run}")
    assert same(weights(seated, "agent_1"), weights(trainer, "agent_1")) and list(seated.others) == ["agent_2"]


def test_a_person_answers(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("A\n.\nA\n.\n"))
    args = "eval --env probe/same-word-v0 --episodes 1 --timing 0 --json --model players:say_a".split()
    assert cli.main([*args, "--policy", "agent_1=human"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["groups"][0]["greedy"]["mean"]["score"]["value"] == 1
    assert said.err.count("--- agent_1 sees ---") == 2 and "end it with a line of one '.'" in said.err
    assert cli.main([*args, "--policy", "agent_1=human"]) == 2  # the input has ended
    assert "Nobody answers for agent 'agent_1'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "text"),
    [("A\n.\n", "A"), ("A\n\n B \n.\n", "A\n\n B "), (".\n", ""), ("A", "A"), ("A\r\nB\r\n.\r\n", "A\nB")],
)
def test_what_a_person_types(monkeypatch, typed, text):
    from llm_marl_baselines.policies.human import answer

    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert answer("?", "agent_1") == text


# -- names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ("tiny", "model"),
        ("smollm2", "model"),
        ("Qwen/Qwen2.5-0.5B-Instruct", "model"),
        ("gpt2", "model"),
        ("human", "human"),
        ("my.module:Thing", "object"),
        ("my_module:make.policy", "object"),
        ("openai:gpt-4o@https://h/v1", "openai"),
        ("openai:llama3:8b@https://h/v1#concurrency=1", "openai"),
    ],
)
def test_names_are_told_apart(spec, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert specs.read(spec, "agent_1") == specs.Spec(kind, spec, "agent_1", False)
    assert specs.read(f"frozen:{spec}", "agent_1") == specs.Spec(kind, spec, "agent_1", True)
    assert specs.absolute(spec) == spec and not specs.is_trained(spec)


def test_folders_that_are_here_win(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("tiny", "human", "C:models", "owner/name"):
        Path(name).mkdir(parents=True)
        (Path(name) / "config.json").touch()
    assert specs.read("tiny", "a").source == "tiny"  # names of ours come first
    assert specs.read("human", "a").kind == "human"
    assert [specs.read(n, "a").kind for n in ("./tiny", "./human", "C:models", "owner/name")] == ["model"] * 4
    (Path("owner/name") / "config.yaml").touch()
    assert specs.read("owner/name#b", "a") == specs.Spec("run", "owner/name", "b", False)
    assert specs.absolute("frozen:owner/name#b") == f"frozen:{tmp_path}/owner/name#b"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("C:\\models\\mine", "no folder here, no package.module:Thing, and no name of the hub"),
        ("llama3:8b", "openai:NAME@URL"),
        ("owner/name:tag", "those have no colon"),
        ("openai:gpt-4o", "no NAME@URL"),
        ("no_such_module:answer", "taken for package.module:Thing. There is no module 'no_such_module'"),
        ("players:answr", "has no attribute 'answr'"),
        ("players:number", "is 3, and no policy"),
        ("players:Needy", "cannot be made without arguments"),
    ],
)
def test_names_of_nobody(spec, words, capsys):
    assert cli.main(["eval", "--env", "probe/same-word-v0", "--model", spec]) == 2
    said = capsys.readouterr().err
    assert words in " ".join(said.split()) and "Traceback" not in said


def test_a_function_that_returns_no_text_is_named():
    with pytest.raises(ConfigError, match="'agent_1' returned 3, a int"):
        answers_of = build("--policy", "agent_1=players:broken").policies["agent_1"]
        answers_of.generate([Request("agent_1", ({"role": "user", "content": "?"},))], seed=0)


def test_functions_are_policies_of_a_rollout():
    trainer = build()
    for thing in (players.say_a, players.SaysA, players.says_a, players.Callable()):
        mixed = {"agent_1": thing, "agent_2": players.say_a}
        batch = collect(mixed, trainer.make_env, trainer.starts(0), trainer.algorithm.plan, seed=0)
        assert batch.scores.tolist() == [1.0] * 8
        times = measure(mixed, trainer.make_env, trainer.starts(0), seed=0, episodes=1)
        assert times.tokens.tolist() == [0]
    with pytest.raises(ConfigError, match="The policy of agent 'agent_1' is 3, and no policy"):
        collect(mixed | {"agent_1": 3}, trainer.make_env, trainer.starts(0), trainer.algorithm.plan, seed=0)


@given(st.text(max_size=30))
def test_every_name_is_read_or_refused(spec):
    try:
        found = specs.read(spec, "agent_1")
    except LlmMarlError:
        return
    assert found.source and specs.short(spec).isprintable()
    if found.kind in ("model", "object", "human"):
        assert specs.absolute(spec) == spec


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


def test_crossplay_keeps_the_adapters_of_one_pair_at_a_time(trained, monkeypatch):
    counts, add = [], Base.add_adapter

    def counted(base, *args, **options):
        made = add(base, *args, **options)
        counts.append(
            sum("lora_A" in n and "layers.0" in n and "q_proj" in n for n, _ in base.model.named_parameters())
        )
        return made

    monkeypatch.setattr(Base, "add_adapter", counted)
    assert cli.main(["crossplay", str(trained), str(trained), "--episodes", "1"]) == 0
    assert counts == [1, 2] * 4  # two agents, four pairs, and nothing left of the pair before


def test_crossplay_refuses_what_cannot_meet(trained, tmp_path, capsys):
    assert cli.main(["crossplay", str(trained)]) == 2
    assert "at least two" in capsys.readouterr().err
    other = tmp_path / "other"
    args = ["train", "magrpo", "--env", "probe/own-word-v0", "--model", "tiny", "--trackers", "[]", "--steps", "1"]
    assert cli.main([*args, "--output", str(other)]) == 0
    capsys.readouterr()
    assert cli.main(["crossplay", str(trained), str(other)]) == 2
    assert "differs" in (said := capsys.readouterr().err) and "env" in said
