"""The command line as a user meets it: what it prints, what it writes, and what it says when something is wrong."""

import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from forked import output, run_cli
from usage import fails

from llm_marl_baselines import __version__, cli
from llm_marl_baselines.policies.hf import HFPolicies
from llm_marl_baselines.runlog import RunLog

SHORT = (
    "train magrpo --env probe/own-word-v0 --model tiny --steps 3 --eval-episodes 4 --trackers [] --output run".split()
)


@pytest.fixture
def finished(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert cli.main(SHORT) == 0
    return tmp_path / "run"


# -- a run --------------------------------------------------------------------------------------------------------------


def test_a_run_writes_what_it_promises(finished, capsys):
    metrics = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [(m["step"], m["phase"]) for m in metrics] == [
        (0, "eval"),
        (0, "eval_greedy"),
        (1, "train"),
        (2, "train"),
        (3, "train"),
        (3, "eval"),
        (3, "eval_greedy"),
    ]
    train = metrics[2]
    for key in ("score", "reward", "term/right", "advantage_std", "zero_groups", "lr", "response_tokens", "cut_share"):
        assert key in train
    assert train["joint_actions"] == 8
    assert "agent_1/grad_norm" in train and "agent_2/loss" in train
    for m in metrics[:2]:
        assert m["score_low"] <= m["score"] <= m["score_high"]
    assert not any(re.search("time|second|tokens_per", key) for m in metrics for key in m)
    timing = [json.loads(line) for line in (finished / "timing.jsonl").read_text().splitlines()]
    assert [t["step"] for t in timing] == [1, 2, 3] and timing[0]["tokens_per_s"] > 0
    samples = [json.loads(line) for line in (finished / "samples.jsonl").read_text().splitlines()]
    assert set(samples[0]["turns"][0]) == {"observations", "responses", "rewards", "score", "terms"}
    config = yaml.safe_load((finished / "config.yaml").read_text())
    assert config["name"] == "magrpo" and config["seed"] == 0 and config["algorithm"]["group_size"] == 4
    versions = json.loads((finished / "versions.json").read_text())
    assert versions["torch"] and versions["python"]
    assert (finished / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in (finished / "checkpoints").iterdir()] == ["step-000003"]


def test_the_same_seed_gives_the_same_run_and_another_seed_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        assert cli.main([*SHORT[:-1], name, "--seed", seed, "--eval-every", "-1"]) == 0
    a, b, c = ((tmp_path / n / "metrics.jsonl").read_bytes() for n in "abc")
    assert a == b != c


def test_the_summary_shows_before_and_after_with_transcripts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(SHORT) == 0
    said = capsys.readouterr().out
    assert "step 0 -> step 3" in said and "sampled" in said and "greedy" in said and "term/right" in said
    assert said.count("[turn 1, agent_1 sees]") == 2
    assert "Plot: run/curves.png" in said


def test_eval_repeats_the_evaluation(finished, capsys):
    last = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()][-2:]
    capsys.readouterr()
    assert cli.main(["eval", str(finished), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (run,) = found["groups"][0]["runs"]
    assert run["step"] == 3
    for phase, record in (("sampled", last[0]), ("greedy", last[1])):
        assert run[phase] == {k: v for k, v in record.items() if k not in ("step", "phase")}
    assert cli.main(["eval", str(finished)]) == 0
    assert "term/right" in capsys.readouterr().out


def test_export_is_loaded_by_plain_peft(finished, capsys):
    from peft import PeftConfig

    assert cli.main(["export", str(finished), "--to", str(finished.parent / "out")]) == 0
    for agent in ("agent_1", "agent_2"):
        folder = finished.parent / "out" / agent
        assert (folder / "adapter_model.safetensors").is_file()
        assert PeftConfig.from_pretrained(str(folder)).peft_type == "LORA"
    fails(capsys, ["export", str(finished), "--to", str(finished.parent / "out")], "is not empty")


def test_plot_draws_several_runs(finished, tmp_path, capsys):
    assert cli.main([*SHORT[:-1], "second", "--seed", "1"]) == 0
    assert cli.main(["plot", "run", "second", "--to", "both.png"]) == 0
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")
    fails(capsys, ["plot", "run", "--to", str(tmp_path / "no" / "x.png")], "no/x.png", code=1)
    fails(capsys, ["plot", "run", "--to", "x.gif"], "must name a .png file")
    fails(capsys, ["plot", "nothing"], "nothing", "no run")


def test_tensorboard_by_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = [a for a in SHORT if a not in ("--trackers", "[]")]
    assert cli.main(args) == 0
    assert list((tmp_path / "run" / "events").rglob("events.out.tfevents.*"))


def test_settings_come_from_file_and_command_line_which_wins(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(
        "env: probe/own-word-v0\nmodel: tiny\nsteps: 9\noptim:\n  lr: 0.5\nalgorithm:\n  gamma: 0.25\n"
    )
    assert cli.main(["train", "magrpo", "--config", "mine.yaml", "--steps", "2", "--print_config"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert (printed["steps"], printed["optim"]["lr"], printed["algorithm"]["gamma"]) == (2, 0.5, 0.25)
    assert printed["sharing"] == "isolated"


@pytest.mark.parametrize(
    "name", ["magrpo-small", "magrpo-small-coding", "magrpo-paper-writing", "magrpo-paper-coding.yaml"]
)
def test_packaged_configurations_are_valid(name, capsys):
    assert cli.main(["train", "magrpo", "--config", name, "--print_config"]) == 0
    assert "group_size" in capsys.readouterr().out


def test_the_papers_numbers(capsys):
    """FACTS, section 1: what the paper says, in our keys."""
    found = {}
    for name in ("writing", "coding"):
        assert cli.main(["train", "magrpo", "--config", f"magrpo-paper-{name}", "--print_config"]) == 0
        found[name] = yaml.safe_load(capsys.readouterr().out)
    for c in found.values():
        assert c["algorithm"]["group_size"] == 4 and c["sampling"]["max_new_tokens"] == 256 and c["sharing"] == "full"
        assert not c["algorithm"]["standardize"] and c["algorithm"]["loss"] == {
            "reduction": "sequence",
            "fixed_length": 0,
            "kl_coef": 0.0,
            "log_kl": False,
            "clip_range": None,
            "epochs": 1,
            "importance_cap": None,
        }
    w, c = found["writing"], found["coding"]
    assert (w["optim"]["lr"], w["sampling"]["temperature"], w["sampling"]["top_p"]) == (5e-6, 0.7, 0.9)
    assert (c["optim"]["lr"], c["sampling"]["temperature"], c["sampling"]["top_p"]) == (1e-5, 0.8, 0.95)
    assert c["env_args"] == {"split": "[16:]", "num_turns": 2} and c["eval_env_args"] == {"split": "[:16]"}


def test_list_and_help(capsys):
    assert cli.main(["list"]) == 0
    said = capsys.readouterr().out
    assert "writing/tldr-v0" in said and "magrpo" in said and "magrpo-small" in said
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert f"writing/tldr-v0 llm_marl_envs.writing.tldr:parallel_env llm-marl-envs {__version__}" in lines
    for entry in (
        "diagnosis llm_marl_envs.feedback.diagnosis:diagnosis",
        "rouge llm_marl_baselines.metrics.rouge:Rouge",
    ):
        assert entry in lines
    assert cli.main(["--help"]) == 0 and "No telemetry" in capsys.readouterr().out
    assert cli.main(["train", "magrpo", "--help"]) == 0
    said = capsys.readouterr().out
    assert "--algorithm.group_size" in said and "--optim.lr" in said and "discount" in said
    assert cli.main(["--version"]) == 0
    assert cli.main([]) == 2


# -- what goes wrong ----------------------------------------------------------------------------------------------------


def wrong(*replacements):
    args = list(SHORT)
    for old, new in replacements:
        args[args.index(old)] = new
    return args


def test_unknown_names(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fails(capsys, ["trian"], "Unknown command 'trian'", "Did you mean 'train'")
    fails(capsys, wrong(("magrpo", "magrop")), "Unknown algorithm 'magrop'", "Did you mean 'magrpo'")
    fails(capsys, wrong(("probe/own-word-v0", "probe/own-wrod-v0")), "Did you mean 'probe/own-word-v0'")
    fails(capsys, wrong(("probe/own-word-v0", "probe/own-word-v9")), "this release has 'probe/own-word-v0'")
    fails(capsys, wrong(("tiny", "tinny")), "tinny", "Did you mean 'tiny'")
    fails(capsys, [*SHORT, "--optim.lrr", "1"], "Unknown setting 'optim.lrr'", "Did you mean 'optim.lr'")
    fails(capsys, [*SHORT, "--env_args.num_turn", "2"], "num_turn", "Did you mean 'num_turns'")
    fails(capsys, [*SHORT[:-3], "nobody", "--output", "run"], "nobody")
    fails(capsys, ["train"], "Algorithms: magrpo")
    fails(capsys, ["train", "--steps", "3"], "needs an algorithm")
    assert not (tmp_path / "run").exists()


def test_wrong_values(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fails(capsys, [*SHORT, "--steps", "many"], "steps", "many")
    fails(capsys, [*SHORT, "--steps", "-1"], "steps must be at least 0")
    fails(capsys, [*SHORT, "--algorithm.group_size", "1"], "group_size must be at least 2")
    fails(capsys, [*SHORT, "--sharing", "isolate"], "sharing", "isolated")
    fails(capsys, [*SHORT, "--trackers", "[tensorbord]"], "Unknown tracker 'tensorbord'", "Did you mean 'tensorboard'")
    fails(capsys, [*SHORT, "--model", "{agent_1: tiny}"], "agent_2")
    fails(capsys, [*SHORT, "--algorithm.group_size", "5000"], "joint actions", "max_joint_actions is 4,096")
    fails(capsys, SHORT[:2] + SHORT[4:], "env")


def test_a_model_that_is_nowhere(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # else it tries for half a minute
    fails(capsys, wrong(("tiny", "someone/some-model")), "someone/some-model", "smollm2")
    (tmp_path / "empty").mkdir()
    fails(capsys, wrong(("tiny", "./empty")), "empty")


def test_a_task_file_with_a_missing_field(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("posts.jsonl").write_text('{"prompt": "a post"}\n{"post": "another"}\n')
    args = "train magrpo --env writing/tldr-v0 --model tiny --env_args.data posts.jsonl --output run".split()
    fails(capsys, [*args, "--eval-every", "-1"], "posts.jsonl, row 1", "field 'prompt' is missing", "fields=")
    Path("posts.jsonl").write_text('{"prompt": "a post"}\n')
    fails(capsys, args, "held-out rows", "--eval_env_args.split")


def test_an_output_folder_of_something_else(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    fails(capsys, SHORT, "holds something else", "--output")
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["thesis.txt"]


def test_a_run_without_output_gets_a_free_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert cli.main([*SHORT[:-2], "--eval-every", "-1"]) == 0
    names = sorted(p.name for p in (tmp_path / "runs").iterdir())
    assert names == ["magrpo-own-word-v0-tiny-seed0", "magrpo-own-word-v0-tiny-seed0-2"]


def test_a_broken_gradient_stops_the_run_and_saves_the_batch(tmp_path):
    def sabotage():
        original = HFPolicies.score
        calls = [0]

        def score(self, *args, **kwargs):
            calls[0] += 1
            for scored in original(self, *args, **kwargs):
                if calls[0] == 3:
                    scored.logprobs.register_hook(lambda g: g * float("nan"))
                yield scored

        HFPolicies.score = score

    assert run_cli(SHORT, tmp_path, sabotage) == 1
    said = output(tmp_path)
    assert re.search(r"Step \d: the gradient of learner 'agent_\d' has norm nan.*batch is saved in run/bad-batch", said)
    assert "Traceback" not in said
    assert list((tmp_path / "run").glob("bad-batch-step-*.npz"))


def test_the_command_of_the_readme_reaches_the_optimum(tmp_path, monkeypatch):
    """All defaults, from the command line, as the README shows it: above 0.9 where 0 is random and 1 the optimum."""
    monkeypatch.chdir(tmp_path)
    assert cli.main("train magrpo --env probe/same-word-v0 --model tiny --seed 0 --output run".split()) == 0
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    scores = [r["score"] for r in records if r["phase"] == "eval"]
    assert scores[0] < 0.5
    assert (scores[-1] - 0.25) / 0.75 >= 0.9


def test_evaluations_during_training_and_old_checkpoints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    more = "--steps 5 --eval-every 2 --checkpoint-every 1 --keep-checkpoints 3".split()
    assert cli.main([*SHORT, *more]) == 0
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [r["step"] for r in records if r["phase"] == "eval"] == [0, 2, 4, 5]
    assert sorted(p.name[-1] for p in (tmp_path / "run" / "checkpoints").iterdir()) == ["3", "4", "5"]


def test_no_steps_still_leaves_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main([*SHORT, "--steps", "0"]) == 0
    assert cli.main(["eval", "run"]) == 0


def test_more_wrong_values(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fails(capsys, [*SHORT, "--optim.betas", "[2,0.9]"], "optim.betas")
    fails(capsys, [*SHORT, "--optim.weight_decay", "-1"], "optim.weight_decay")
    fails(capsys, [*SHORT, "--sampling.max_new_tokens", "0"], "max_new_tokens")
    fails(capsys, [*SHORT, "--sampling.temperature", "0"], "temperature", "above 0")
    fails(capsys, [*SHORT, "--sampling.agents", "{agent_1: {max_new_tokens: abc}}"], "max_new_tokens", "abc")
    fails(capsys, [*SHORT, "--sampling.agents", "{agent_9: {top_p: 0.5}}"], "agent_9")
    fails(capsys, [*SHORT, "--sampling.agents", "{agent_1: {topp: 0.5}}"], "topp", "Did you mean 'top_p'")
    fails(capsys, [*SHORT, "--device", "warp"], "warp")
    fails(capsys, ["train", "collections:OrderedDict", *SHORT[2:]], "not an algorithm")
    fails(capsys, ["list", "--all"], code=2)
    monkeypatch.setenv("WORLD_SIZE", "2")
    fails(capsys, SHORT, "2 processes", "RANK is not set", "torchrun")
    assert not (tmp_path / "run").exists()


def test_help_of_every_command(capsys):
    for args in (["train"], ["eval"], ["compare"], ["plot"], ["export"], ["list"]):
        assert cli.main([*args, "--help"]) == 0, args
        assert len(capsys.readouterr().out) > 100


def test_a_folder_without_permission(tmp_path):
    (tmp_path / "file").write_text("")
    args = [*SHORT[:-1], str(tmp_path / "file" / "run")]  # root may write everywhere, but not below a file
    assert run_cli(args, tmp_path) == 2
    assert "cannot be written" in output(tmp_path) and "Traceback" not in output(tmp_path)


def test_damaged_run_folders(finished, capsys):
    config, metrics = finished / "config.yaml", finished / "metrics.jsonl"
    good = config.read_text()
    for bad in ("", "steps: 3\n", "a: [", good.replace("seed: 0\n", "")):
        config.write_text(bad)
        for command in (["eval", "run"], ["plot", "run"], ["train", "--resume", "run"]):
            fails(capsys, command, "config.yaml")
    config.write_text(good)
    whole = metrics.read_text()
    metrics.write_text(whole + '{"step": 4, "ph')  # a kill in the middle of a line
    assert cli.main(["plot", "run"]) == 0
    metrics.write_text(whole.replace("{", "x", 1))
    fails(capsys, ["plot", "run"], "metrics.jsonl is damaged")
    metrics.write_text("")
    fails(capsys, ["train", "--resume", "run"], "metrics.jsonl has 0 bytes", code=1)


@pytest.mark.parametrize("file", ["state.json", "optimizers.pt", "policy"])
@pytest.mark.parametrize("damage", ["empty", "torn", "gone"])
def test_damaged_checkpoints(finished, capsys, file, damage):
    path = finished / "checkpoints" / "step-000003" / file
    path = next(path.glob("*.safetensors")) if path.is_dir() else path
    data = path.read_bytes()
    path.unlink() if damage == "gone" else path.write_bytes(data[: len(data) // 2] if damage == "torn" else b"")
    capsys.readouterr()
    fails(capsys, ["eval", "run"], "step-000003 is damaged", code=1)


def test_own_data_without_held_out_rows_is_never_evaluated_on_training_rows(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("posts.jsonl").write_text('{"prompt": "a post"}\n{"prompt": "another"}\n')
    args = "train magrpo --env writing/tldr-v0 --model tiny --env_args.data posts.jsonl --output run --steps 1".split()
    assert cli.main([*args, "--eval-every", "-1", "--trackers", "[]", "--sampling.max_new_tokens", "4"]) == 0
    capsys.readouterr()
    fails(capsys, ["eval", "run"], "held-out rows")


def test_plots_tell_runs_with_other_settings_apart(finished, tmp_path):
    from llm_marl_baselines.logged import groups_of

    for folder, extra in (("x/run", "--optim.lr=0.1"), ("y/run", "--optim.lr=0.2"), ("z", "--seed=1")):
        assert cli.main([*SHORT[:-1], folder, extra, "--eval-every", "-1", "--steps", "1"]) == 0
    assert cli.main([*SHORT[:-1], "w", "--seed", "2", "--threads", "2", "--eval-every", "-1", "--steps", "1"]) == 0
    groups = groups_of([Path(p) for p in ("x/run", "y/run", "z", "w")])
    folders = [sorted(str(one.run) for one in group) for group in groups.values()]
    assert sorted(folders) == [["w", "z"], ["x/run"], ["y/run"]]


def test_two_processes_do_not_train_in_one_folder(finished, capsys):
    from filelock import FileLock

    with FileLock(finished / ".lock"):
        fails(capsys, ["train", "--resume", "run"], "Another process is training in run")


def test_settings_below_env_args_keep_their_hyphens(capsys):
    args = ["--env_args.some-key", "1", "--eval-every", "3", "--print_config"]
    assert cli.main(["train", "magrpo", "--env", "probe/own-word-v0", "--model", "tiny", *args]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["env_args"] == {"some-key": 1} and printed["eval_every"] == 3


def test_debug_shows_the_traceback(tmp_path):
    run_cli([*SHORT, "--steps", "-1", "--debug"], tmp_path)
    assert "Traceback" in output(tmp_path)


def test_progress_is_plain_lines_in_a_pipe(tmp_path):
    assert run_cli(SHORT, tmp_path) == 0
    said = output(tmp_path)
    assert re.search(r"step 3/3: score [\d.]+, tokens/s [\d.,]+, 0 s left", said)
    assert "\x1b[" not in said


def test_tracker_values_reach_the_tracker(tmp_path):
    from accelerate.tracking import GeneralTracker, LOGGER_TYPE_TO_CLASS  # noqa: I001

    assert issubclass(LOGGER_TYPE_TO_CLASS["tensorboard"], GeneralTracker)
    log = RunLog(tmp_path, None, ["tensorboard"], {"steps": 3})
    log.metrics({"step": 1, "phase": "train", "score": 0.5})
    log.close()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    assert events.Scalars("train/score")[0].value == 0.5


NOTES = """
from pathlib import Path
from accelerate.tracking import GeneralTracker

class Notes(GeneralTracker):
    name, requires_logging_directory, tracker = "notes", True, None

    def __init__(self, run_name, logging_dir):
        super().__init__()
        self.file = open(Path(logging_dir) / "notes.txt", "a")

    def store_init_configuration(self, values):
        print("settings", values["steps"], file=self.file)

    def log(self, values, step=None):
        print(step, *sorted(values), file=self.file)

    def finish(self):
        self.file.close()

class Nameless(GeneralTracker):
    pass

class Demanding(Notes):
    def __init__(self, run_name, logging_dir, password):
        super().__init__(run_name, logging_dir)

def shout(row, transcript, score, agent):
    return "LOUDER!"
"""


@pytest.fixture
def outsiders(tmp_path, monkeypatch):
    """A module in the working folder, which is on no path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_notes.py").write_text(NOTES)
    yield tmp_path
    sys.modules.pop("my_notes", None)


def test_a_tracker_and_feedback_of_an_outsider(outsiders):
    path = list(sys.path)
    more = "--tracker my_notes:Notes --feedback my_notes:shout --env_args.num_turns 2 --eval-every -1 --samples-every 1"
    assert cli.main([*SHORT, *more.split()]) == 0
    assert sys.path == path
    lines = (outsiders / "run" / "notes.txt").read_text().splitlines()
    assert lines[0] == "settings 3" and [line.split()[0] for line in lines[1:]] == ["1", "2", "3"]
    assert "train/score" in lines[1] and "train/agent_1/grad_norm" in lines[1]
    assert "LOUDER!" in (outsiders / "run" / "samples.jsonl").read_text()
    config = yaml.safe_load((outsiders / "run" / "config.yaml").read_text())
    assert config["trackers"] == ["my_notes:Notes"] and config["env_args"]["feedback"] == "my_notes:shout"


def test_short_settings_are_written_out(capsys):
    args = "train magrpo --env probe/own-word-v0 --model tiny --feedback=signals --tracker a:B --tracker=wandb"
    assert cli.main([*args.split(), "--print_config"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["env_args"] == {"feedback": "signals"} and printed["trackers"] == ["tensorboard", "a:B", "wandb"]


def test_trackers_that_are_none(outsiders, capsys):
    fails(capsys, [*SHORT, "--tracker", "my_notes:shout"], "my_notes:shout", "GeneralTracker")
    fails(capsys, [*SHORT, "--tracker", "my_notes:Nameless"], "lacks name, requires_logging_directory, tracker")
    fails(capsys, [*SHORT, "--tracker", "my_notes:Demanding"], "logging_dir= alone", "password")
    fails(capsys, [*SHORT, "--tracker", "my_notes:Note"], "Did you mean 'Notes'")
    fails(capsys, [*SHORT, "--tracker", "tensorbored"], "Did you mean 'tensorboard'", "package.module:Class")
    fails(capsys, [*SHORT, "--tracker"], "--tracker takes a name")
    fails(capsys, [*SHORT, "--feedback", "--steps", "2"], "--feedback takes a name")
    fails(capsys, [*SHORT, "--feedback", "my_notes:shot"], "Did you mean 'shout'")
    assert not (outsiders / "run").exists()


def test_a_run_leaves_the_signal_handlers_as_they_were(tmp_path, monkeypatch):
    import signal

    monkeypatch.chdir(tmp_path)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert cli.main(SHORT) == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_joint_reward_joins_individual_rewards(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = [*SHORT, "--env_args.reward_mode", "individual", "--seed", "5", "--eval-every", "-1"]
    assert cli.main([*args, "--algorithm.joint_reward", "sum"]) == 0
    fails(capsys, [*args[:-1], "-1", "--output", "other"], "agents' rewards differ", "algorithm.joint_reward")


def test_prompts_that_are_too_long(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fails(capsys, [*SHORT, "--prompts.max_tokens", "5"], "agent_1", "limit of 5", "--prompts.max_tokens")


def test_the_bar_on_a_terminal(monkeypatch, capsys):
    from llm_marl_baselines.runlog import Progress

    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    progress = Progress(10, 4)
    progress.step({"score": 0.5, "tokens/s": 1234.0}, 0.1)
    progress.say("a word in between")
    task = progress._bar.tasks[0]
    assert (task.completed, task.total) == (5, 10)
    assert "score 0.500" in task.description and "1,234" in task.description
    progress.close()
