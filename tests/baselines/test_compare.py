"""``llm-marl compare``: groups, tables, figures, and what is refused. Logs are made by hand where that tells more."""

import json
import shutil

import numpy as np
import pytest
import yaml
from usage import fails

from llm_marl_baselines import cli, figures
from llm_marl_baselines.grouping import by_setting
from llm_marl_baselines.statistics import bootstrap, compare

RUN = "train magrpo --env probe/own-word-v0 --model tiny --steps 2 --eval-episodes 4 --trackers []".split()
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A real run, whose config the runs below have too."""
    run = tmp_path_factory.mktemp("real") / "run"
    assert cli.main([*RUN, "--output", str(run)]) == 0
    return run


@pytest.fixture
def made(finished, tmp_path, monkeypatch):
    """``made(name, scores, seed=..., KEY=...)`` writes a run whose last evaluation found these scores: id -> list."""
    monkeypatch.chdir(tmp_path)

    def make(folder_name, scores, step=2, seed=0, joint_actions=8, max_score=1.0, **settings):
        folder = tmp_path / folder_name
        folder.mkdir()
        config = yaml.safe_load((finished / "config.yaml").read_text()) | {"seed": seed, **settings}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        lines = [
            {"step": s, "phase": "train", "score": 0.1 * s, "joint_actions": joint_actions} for s in range(1, step + 1)
        ]
        for at, factor in ((0, 0.5), (step, 1.0)) if step else ((0, 1.0),):
            told = {row: [factor * x for x in values] for row, values in scores.items()}
            interval = bootstrap(list(told.values()))
            record = {"score": interval.value, "score_low": interval.low, "score_high": interval.high}
            record |= {"return": interval.value, "return_low": interval.low, "return_high": interval.high}
            record |= {"term/right": interval.value, "tokens": 2.0, "rows": len(told), "row_scores": told}
            record |= {"max_score": max_score} if max_score else {}
            lines += [{"step": at, "phase": phase, **record} for phase in ("eval", "eval_greedy")]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        timing = [{"step": s, "rollout": 2.0, "update": 1.0, "tokens_per_s": 10.0} for s in range(1, step + 1)]
        (folder / "timing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in timing))
        return folder_name

    return make


GOOD = {"x": [1.0, 0.5], "y": [0.5, 0.5], "z": [0.0, 1.0]}
BAD = {"z": [0.0, 0.5], "x": [0.5, 0.5], "y": [0.0, 0.0]}  # other order


def found(capsys, args):
    capsys.readouterr()
    assert cli.main(["compare", *args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_real_runs_are_compared(finished, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, extra in (
        ("seed1", ["--seed", "1"]),
        ("fast", ["--optim.lr", "0.01"]),
        ("alone", ["--protocol", "single", "--steps", "0"]),
    ):
        assert cli.main([*RUN, *extra, "--output", name]) == 0
    capsys.readouterr()
    assert cli.main(["compare", str(finished), "seed1", "fast", "alone", "--to", "all.png"]) == 0
    said = capsys.readouterr().out
    assert (tmp_path / "all.png").read_bytes().startswith(PNG)
    for word in ("magrpo, parallel", "optim.lr=0.01", "untrained, single", "seeds", "0, 1", "IQM over runs", "% of 1"):
        assert word in said
    for word in (
        "difference",
        "P(higher)",
        "term/right",
        "joint actions, a run",
        "tokens sampled, a run",
        "seconds, a run",
    ):
        assert word in said
    assert "Figure: all.png" in said and "too narrow" in said


def test_groups_are_held_against_the_first_row_by_row(made, capsys, tmp_path):
    runs = [made("g0", GOOD), made("g1", GOOD, seed=1), made("b0", BAD, optim={"lr": 1.0})]
    told = found(capsys, runs)
    first, second = told["groups"]
    assert (first["seeds"], second["seeds"]) == ([0, 1], [0])
    assert first["rows"] == second["rows"] == ["x", "y", "z"]
    good = np.array([[*GOOD.values()]] * 2)
    bad = np.array([[BAD[row] for row in "xyz"]])
    assert first["sampled"]["mean"]["score"] == pytest.approx(bootstrap(good).as_dict())
    assert first["sampled"]["iqm"]["score"] == pytest.approx(bootstrap(good, statistic="iqm").as_dict())
    assert first["sampled"]["percent"]["score"]["value"] == pytest.approx(100 * good.mean())
    (sampled, greedy) = told["comparisons"]
    assert (sampled["phase"], greedy["phase"]) == ("sampled", "greedy")
    expected = compare(good, bad).as_dict()
    assert sampled["difference"] == pytest.approx(expected["difference"])
    assert sampled["improvement"] == pytest.approx(expected["improvement"])
    assert first["sampled"]["means"]["term/right"] == pytest.approx(good.mean())
    assert told["versions"]["python"] and told["figure"] == "comparison.png"
    assert (tmp_path / "comparison.png").read_bytes().startswith(PNG)


def test_costs_are_sums_over_the_logs(made, capsys):
    told = found(capsys, [made("a", GOOD, step=3, joint_actions=5), made("none", GOOD, step=0, steps=0)])
    assert told["groups"][0]["costs"] == [{"joint_actions": 15, "tokens": 90, "seconds": 9.0}]
    assert told["groups"][1]["costs"] == [{"joint_actions": 0, "tokens": 0, "seconds": 0}]
    assert told["groups"][1]["label"] == "untrained"


@pytest.mark.parametrize(
    ("against", "places", "held_out"),
    [("steps", [1, 2, 3], [0, 3]), ("joint_actions", [5, 10, 15], [0, 15]), ("tokens", [25, 50, 75], [0, 75])],
)
def test_what_curves_are_drawn_against(made, tmp_path, monkeypatch, against, places, held_out):
    """Seeds of one setting that sample 30 and 20 tokens a step: 25 in the mean."""
    runs = [made("a", GOOD, step=3, joint_actions=5), made("b", BAD, step=3, joint_actions=5, seed=1)]
    timing = [{"step": s, "rollout": 2.0, "update": 1.0, "tokens": 20, "tokens_per_s": 0} for s in range(1, 4)]
    (tmp_path / "b" / "timing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in timing))
    drawn = []

    def save(figure, path):
        drawn.extend(axis.lines[0].get_xdata().tolist() for axis in figure.axes[:2])
        assert against.split("_")[-1].rstrip("s") in figure.axes[0].get_xlabel()
        return path

    monkeypatch.setattr(figures, "_save", save)
    for command in ("compare", "plot"):
        assert cli.main([command, *runs, "--x", against]) == 0
    assert drawn == [places, held_out] * 2


def test_tokens_of_a_run_without_times_are_not_guessed(made, capsys, tmp_path):
    run = made("a", GOOD)
    (tmp_path / "a" / "timing.jsonl").unlink()
    fails(capsys, ["compare", run, "--x", "tokens"], "a does not tell what step 1 took", "--x steps")
    fails(capsys, ["plot", run, "--x", "seconds"], "seconds")


def test_runs_of_other_algorithms_compare(made, capsys):
    other = made("other", BAD, name="theirs.module:IAC", algorithm={"critic_lr": 0.1})
    told = found(capsys, [made("a", GOOD), other])
    assert [group["label"] for group in told["groups"]] == ["magrpo", "IAC"]


def test_how_it_is_played_may_differ(made, capsys):
    two = made("two", BAD, env_args={"num_turns": 2, "feedback": "signals"}, protocol="sequential")
    told = found(capsys, [made("one", GOOD), two])
    assert told["groups"][0]["label"] == "magrpo, parallel"
    assert told["groups"][1]["label"] == "magrpo, feedback=signals, num_turns=2, sequential"


def test_without_a_maximum_there_are_no_percents(made, capsys):
    (group,) = found(capsys, [made("a", GOOD, max_score=None)])["groups"]
    assert group["maxima"] == {} and group["sampled"]["percent"] == {}
    assert cli.main(["compare", "a"]) == 0
    assert "%" not in capsys.readouterr().out.replace("95 %", "")


@pytest.mark.parametrize("count", [1, 12])
def test_figures_of_one_group_and_of_many(made, capsys, count, tmp_path):
    runs = [made(f"r{i}", GOOD if i % 2 else BAD, optim={"lr": float(i)}) for i in range(count)]
    assert len(found(capsys, runs)["groups"]) == count
    assert (tmp_path / "comparison.png").read_bytes().startswith(PNG)


def test_labels_name_what_differs_or_else_the_folder():
    base = {
        "name": "magrpo",
        "env": "e",
        "model": "tiny",
        "protocol": "parallel",
        "policy": {},
        "steps": 5,
        "seed": 0,
        "optim": {"lr": 1},
    }
    base |= {"algorithm": {"gamma": 1.0}}
    assert by_setting(["a", "b"], [base, base | {"seed": 1}]) == {"magrpo, e, tiny": [0, 1]}
    assert by_setting(["a"], [base | {"protocol": "single"}]) == {"magrpo, e, tiny, single": [0]}
    assert by_setting(["a", "b"], [base, base | {"algorithm": {"gamma": 0.5}}]) == {
        "magrpo, gamma=1.0": [0],
        "magrpo, gamma=0.5": [1],
    }
    other = {"model": {"x": "small", "y": "large"}}
    assert by_setting(["a", "b"], [base, base | other]) == {"magrpo, tiny": [0], "magrpo, small+large": [1]}
    # Untrained models have no learning rate that could tell anything.
    assert list(by_setting(["a", "b"], [base, base | {"steps": 0, "optim": {"lr": 9}}])) == ["magrpo", "untrained"]
    # Trained agents that are played again are not untrained.
    seated = base | {"steps": 0, "policy": {"x": "frozen:runs/a"}}
    assert "untrained" not in (label := list(by_setting(["a"], [seated]))[0]) and "x=frozen:runs/a" in label
    assert list(by_setting(["a", "b"], [base, base | {"model": "m" * 99}])) == ["magrpo, tiny", "b"]


# -- what is refused ----------------------------------------------------------------------------------------------------


def test_other_environments(made, capsys):
    fails(
        capsys,
        ["compare", made("a", GOOD), made("b", GOOD, env="probe/same-word-v0")],
        "a is a run on 'probe/own-word-v0' and b one on 'probe/same-word-v0'",
    )
    fails(
        capsys,
        ["compare", "a", made("c", GOOD, env_args={"data": "mine.jsonl"})],
        "a and c",
        "data is None there and 'mine.jsonl' here",
        "--eval_env_args",
    )
    fails(capsys, ["compare", "a", made("d", GOOD, eval_env_args={"weights": {"right": 2.0}})], "weights")


def test_splits_are_named_and_slices_are_told_apart_by_their_rows(made, capsys):
    runs = [
        made(f"s{i}", GOOD, eval_env_args={"split": split}, optim={"lr": i})
        for i, split in enumerate(["test", "test[:3]"])
    ]
    assert len(found(capsys, runs)["groups"]) == 2
    other = made("other", GOOD, eval_env_args={"split": "[:3]"}, optim={"lr": 9})
    fails(capsys, ["compare", "s0", other], "split is 'test' there and 'train' here")


def test_other_rows(made, capsys):
    other = made("b", {"x": [1.0], "q": [1.0]}, optim={"lr": 2.0})
    fails(
        capsys,
        ["compare", made("a", GOOD), other],
        "(3 rows)",
        "b (2 rows)",
        "only b has 'q'",
        "'y', 'z'",
        "llm-marl eval",
    )


def test_seeds_of_other_lengths_and_twice_the_same_seed(made, capsys):
    runs = [made("a", GOOD), made("b", GOOD, step=1, seed=1)]
    fails(capsys, ["compare", *runs], "a at step 2, b at step 1", "--resume")
    fails(capsys, ["compare", "a", made("c", GOOD)], "a and c have the same settings and the same seed, 0")


def test_logs_without_evaluations_or_rows(made, capsys, tmp_path):
    run = tmp_path / made("a", GOOD)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (run / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in lines if r["phase"] == "train"))
    fails(capsys, ["compare", "a"], "a has no held-out evaluation", "llm-marl eval RUN RUN")
    for line in lines:
        line.pop("row_scores", None)
    (run / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in lines))
    fails(capsys, ["compare", "a"], "no scores of single rows", "llm-marl eval a")


def test_wrong_usage(made, capsys, tmp_path):
    made("a", GOOD)
    fails(capsys, ["compare", "nothing"], "nothing", "no run")
    fails(capsys, ["compare", "a", "--to", "x.gif"], "must name a .png file")
    fails(capsys, ["compare", "a", "--to", "no/x.png"], "no/x.png", code=1)
    fails(capsys, ["compare"], "RUN")
    shutil.copy(tmp_path / "a" / "config.yaml", tmp_path / "config.yaml")
    fails(capsys, ["compare", "."], "no run that has begun")
    assert cli.main(["compare", "--help"]) == 0
