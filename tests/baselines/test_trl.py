"""``TeamRollout`` in TRL's real ``GRPOTrainer``, on the tiny model."""

from __future__ import annotations

import pytest

pytest.importorskip("trl")

import numpy as np
import torch
from teams import Outside, team
from toys import toy
from trl import GRPOConfig, GRPOTrainer

from llm_marl_baselines.policies import models
from llm_marl_baselines.policies.base import Response, Sampling
from llm_marl_baselines.policies.hf import HFPolicies
from llm_marl_envs import CollaborationEnv, Score, Task, load_rows, make
from llm_marl_envs.errors import ConfigError
from llm_marl_envs.integrations.trl import TeamRollout
from llm_marl_envs.wrappers import Sequential

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'", "ignore::FutureWarning")
TOKENIZER = models.load_tokenizer("tiny")


def trainer_of(rollout, folder, tokenizer=TOKENIZER, **settings):
    model, _ = models.load("tiny")
    config = {
        "per_device_train_batch_size": 8,
        "num_generations": 8,
        "max_completion_length": 1,
        "learning_rate": 0.003,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 3,
    }
    args = GRPOConfig(str(folder), **config | settings)
    dataset = rollout.dataset()
    return GRPOTrainer(
        model, rollout.environment_reward, args, dataset, processing_class=tokenizer, rollout_func=rollout
    )


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    """One that samples for rollouts which the tests call themselves."""
    rollout = TeamRollout(lambda: make("probe/own-word-v0"), "agent_1", {"agent_2": say("D")})
    return trainer_of(rollout, tmp_path_factory.mktemp("trl"))


def say(text):
    return lambda observation, agent: text


def prompts_of(rollout, repeat=1, **starts):
    return [row["prompt"] for row in rollout.dataset(**starts) for _ in range(repeat)]


def segments(ids, mask):
    """The agent's responses, as text: the runs of its own tokens."""
    runs = np.split(np.arange(len(ids)), np.flatnonzero(np.diff(mask)) + 1)
    return [TOKENIZER.decode([ids[i] for i in run], skip_special_tokens=True) for run in runs if mask[run[0]] == 1]


# -- training ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A real GRPO run of agent_1, whose partner is a frozen language model."""
    partner = HFPolicies(["agent_2"], "tiny", sampling=Sampling(max_new_tokens=1), seed=5)
    envs, played = [], []

    def build():
        envs.append(make("probe/own-word-v0"))
        return envs[-1]

    class Kept(TeamRollout):
        def __call__(self, prompts, trainer):
            out = super().__call__(prompts, trainer)
            played.append((out, [env.turns[0].actions for env in envs]))
            return out

    trainer = trainer_of(Kept(build, "agent_1", {"agent_2": partner}), tmp_path_factory.mktemp("trl"), max_steps=6)
    weights = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    base = partner._learners["agent_2"].base.model.state_dict()
    frozen = {name: value.clone() for name, value in base.items()}
    trainer.train()
    return trainer, weights, base, frozen, played


def test_the_trained_agents_weights_change_and_the_partners_do_not(run):
    trainer, weights, base, frozen, _ = run
    now = trainer.model.state_dict()
    assert any(not torch.equal(now[name], value) for name, value in weights.items())
    assert all(torch.equal(base[name], value) for name, value in frozen.items())


def test_the_logged_reward_is_what_the_environment_pays_for_these_texts(run):
    trainer, _, _, _, played = run
    logged = [record["reward"] for record in trainer.state.log_history if "reward" in record]
    assert len(logged) == len(played) == 6
    for (out, actions), reward in zip(played, logged, strict=True):
        paid = []
        for ids, mask, given, action in zip(
            out["completion_ids"], out["env_mask"], out["episode_return"], actions, strict=True
        ):
            (text,) = segments(ids, mask)
            assert action["agent_1"] == text
            env = make("probe/own-word-v0")
            env.reset(seed=0)
            paid.append(env.step({"agent_1": text, "agent_2": action["agent_2"]})[1]["agent_1"])
            assert given == paid[-1]
        assert reward == pytest.approx(np.mean(paid))
    terms = [record["terms/right"] for record in trainer.state.log_history if "reward" in record]
    assert terms == pytest.approx(logged)


def test_the_agent_learns_its_word(run):
    *_, played = run
    right = [np.mean([action["agent_1"] == "B" for action in actions]) for _, actions in played]
    assert right[0] < 0.5 and right[-1] > 0.8


# -- what a rollout plays ---------------------------------------------------------------------------------------------


def test_several_turns_are_one_sequence_in_which_only_its_own_tokens_train(trainer):
    envs = []

    def build():
        envs.append(make("probe/two-turn-v0"))
        return envs[-1]

    heard = []
    rollout = TeamRollout(
        build, "agent_1", {"agent_2": lambda seen, agent: heard.append(seen) or "DA"["Turn 2" in seen]}
    )
    out = rollout(prompts_of(rollout, repeat=32), trainer)
    first, second = "You are agent 1 of 2. Turn 1 of 2. Answer with one of: A B C D.", "Turn 2 of 2. Answer"
    assert second in heard[-1] and len(heard) == 64
    for i, env in enumerate(envs):
        ids, mask = out["completion_ids"][i], out["env_mask"][i]
        assert out["prompt_ids"][i] == TOKENIZER(first + "\n")["input_ids"]
        assert len(ids) == len(mask) and mask[0] == mask[-1] == 1
        told = [token for token, own in zip(ids, mask, strict=True) if not own]
        assert told == TOKENIZER("\n\nTurn 2 of 2. Answer with one of: A B C D.\n")["input_ids"]
        texts = segments(ids, mask)
        assert texts == [turn.actions["agent_1"] for turn in env.turns] and len(texts) == 2
        fresh = make("probe/two-turn-v0")
        fresh.reset(seed=0)
        rewards = [fresh.step({"agent_1": text, "agent_2": other})[1] for text, other in zip(texts, "DA", strict=True)]
        assert out["episode_return"][i] == sum(reward["agent_1"] for reward in rewards)
    assert len({paid for paid in out["episode_return"]}) > 1


def test_equal_prompts_of_different_rows_are_played_on_their_own_rows(trainer):
    class Hidden(Task):
        name, agents, max_terms = "toy/hidden", ("one", "two"), {"right": 1.0}

        def prompt(self, row, agent):
            return "Which letter?"

        def score(self, row, responses):
            return Score.of({"right": float(responses["two"] == row["letter"])})

    rows = load_rows([{"id": letter, "letter": letter} for letter in "ABCD"])
    rollout = TeamRollout(lambda: CollaborationEnv(Hidden(), rows), "one", {"two": say("C")})
    dataset = rollout.dataset()
    assert {row["prompt"][0]["content"] for row in dataset} == {"Which letter?"}
    order = [3, 2, 2, 0, 1, 2]
    out = rollout([dataset[i]["prompt"] for i in order], trainer)
    assert out["episode_return"] == [float(i == 2) for i in order]
    chosen = rollout.dataset(indices=[2, 1])
    assert rollout([row["prompt"] for row in chosen], trainer)["episode_return"] == [1.0, 0.0]


def test_an_agent_that_answers_later_is_prompted_with_all_that_it_was_told(trainer):
    env = Sequential(make("probe/own-word-v0"))
    waits = env.reset(seed=0)[0]["agent_2"]
    sees = env.step({"agent_1": "B"})[0]["agent_2"]
    rollout = TeamRollout(lambda: Sequential(make("probe/own-word-v0")), "agent_2", {"agent_1": say("B")})
    out = rollout(prompts_of(rollout, repeat=2), trainer)
    assert out["prompt_ids"] == [TOKENIZER(f"{waits}\n\n{sees}\n")["input_ids"]] * 2
    assert all(len(ids) == 1 for ids in out["completion_ids"])
    assert set(out["episode_return"]) <= {0.5, 1.0}


def test_a_third_partys_environment_is_started_by_seed_and_its_agents_may_leave(trainer):
    seen = []
    rollout = TeamRollout(
        lambda: Outside((("x", "y"), ("y",)), leaver="x"), "x", {"y": lambda told, agent: seen.append(told) or "abc"}
    )
    out = rollout(prompts_of(rollout, seeds=[7, 8]), trainer)
    assert seen[:2] == ["start 7", "start 8"] and seen[2:] == ["seed 7 turn 1", "seed 8 turn 1"]
    # Its letters are abc, which the model does not write: every response is fitted to one of the least length, 1.
    assert out["episode_return"] == [1.0, 1.0] and out["clipped_responses"] == [1, 1]


def test_a_policy_is_asked_once_a_step_for_all_episodes_and_remembers(trainer):
    calls = []

    class Policy:
        def generate(self, requests, *, seed, greedy=False):
            calls.append((requests, seed))
            return [[Response("x")] * request.num_samples for request in requests]

    rollout = TeamRollout(lambda: team(num_turns=2), "ann", dict.fromkeys(("ben", "cat"), Policy()))
    rollout(prompts_of(rollout, repeat=3, indices=[0, 1]), trainer)
    assert len(calls) == 2 and len({seed for _, seed in calls}) == 2
    first, second = ([(r.agent, r.num_samples, len(r.messages)) for r in requests] for requests, _ in calls)
    assert sorted(first) == [("ben", 3, 1)] * 2 + [("cat", 3, 1)] * 2
    assert sorted(second) == [("ben", 3, 3)] * 2 + [("cat", 3, 3)] * 2
    roles = [[m["role"] for m in r.messages] for r in calls[1][0]]
    assert roles == [["user", "assistant", "user"]] * 4
    rollout(prompts_of(rollout, indices=[0]), trainer)
    assert len({seed for _, seed in calls}) == 4  # another call of the same step


def test_a_chat_template_is_used_and_its_end_of_text_is_not_written_twice(tmp_path):
    tokenizer = models.load_tokenizer("tiny")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ '1' if m.role == 'user' else '2' }}{{ m.content }}<eos>{% endfor %}"
        "{% if add_generation_prompt %}2{% endif %}"
    )
    rollout = TeamRollout(lambda: make("probe/two-turn-v0"), "agent_1", {"agent_2": say("D")})
    trainer = trainer_of(rollout, tmp_path, tokenizer)
    out = rollout(prompts_of(rollout, repeat=64), trainer)
    asked = "1You are agent 1 of 2. Turn 1 of 2. Answer with one of: A B C D.<eos>2"
    told = tokenizer("<eos>1Turn 2 of 2. Answer with one of: A B C D.<eos>2")["input_ids"]
    finished = 0
    for prompt, ids, mask in zip(out["prompt_ids"], out["completion_ids"], out["env_mask"], strict=True):
        assert prompt == tokenizer(asked)["input_ids"]
        between = [token for token, own in zip(ids, mask, strict=True) if not own]
        assert between == (told[1:] if ids[0] == tokenizer.eos_token_id else told)
        finished += ids[0] == tokenizer.eos_token_id
    assert 0 < finished < 64


# -- what is refused --------------------------------------------------------------------------------------------------


def own_word():
    return make("probe/own-word-v0")


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((own_word(), "agent_1", {"agent_2": say("D")}), "make_env must be a function"),
        ((lambda: 7, "agent_1", {}), "TeamRollout takes a pettingzoo.ParallelEnv"),
        ((own_word, "agnet_1", {"agent_2": say("D")}), "no agent 'agnet_1'. Did you mean 'agent_1'"),
        ((own_word, "agent_1", {"agent2": say("D")}), "no agent 'agent2'. Did you mean 'agent_2'"),
        ((own_word, "agent_1", {}), r"partners lacks \['agent_2'\]"),
        ((own_word, "agent_1", {"agent_1": say("B"), "agent_2": say("D")}), "cannot be a partner"),
        ((own_word, "agent_1", {"agent_2": "D"}), "must be a function"),
        ((lambda: toy(history="full"), "left", {"right": say("R")}), "history='none'"),
    ],
)
def test_wrong_arguments(arguments, words):
    with pytest.raises(ConfigError, match=words):
        TeamRollout(*arguments)


def test_starts_that_make_no_data_set():
    rollout = TeamRollout(own_word, "agent_1", {"agent_2": say("D")})
    with pytest.raises(ConfigError, match="one of them"):
        rollout.dataset(indices=[0], seeds=[0])
    with pytest.raises(ConfigError, match="from 0 to 0"):
        rollout.dataset(indices=[1])
    with pytest.raises(ConfigError, match=r"dataset\(seeds="):
        TeamRollout(Outside, "x", {"y": say("a")}).dataset()


def test_prompts_that_are_not_its_own(trainer):
    rollout = TeamRollout(toy, "left", {"right": say("R")})
    with pytest.raises(ConfigError, match="does not say where its episode starts"):
        rollout(["left: text 0"], trainer)
    with pytest.raises(ConfigError, match="does not say where its episode starts"):
        rollout([[{"role": "user", "content": "left: text 0"}]], trainer)
    (prompt,) = prompts_of(rollout, indices=[1])
    with pytest.raises(ConfigError, match="Make the data set with this rollout"):
        rollout([[{**prompt[0], "index": 2}]], trainer)


def test_the_partners_faults_come_up(trainer):
    def fails(observation, agent):
        raise RuntimeError("the partner's own fault")

    class Short:
        def generate(self, requests, *, seed, greedy=False):
            return [[] for _ in requests]

    for partner, error, words in (
        (fails, RuntimeError, "own fault"),
        (lambda observation, agent: None, ConfigError, "'agent_2' answered None"),
        (Short(), ConfigError, r"Short.generate must return num_samples"),
    ):
        rollout = TeamRollout(own_word, "agent_1", {"agent_2": partner})
        with pytest.raises(error, match=words):
            rollout(prompts_of(rollout), trainer)


def test_an_agent_that_is_never_asked_cannot_be_trained(trainer):
    rollout = TeamRollout(lambda: Outside((("y",),)), "x", {"y": say("abc")})
    with pytest.raises(ConfigError, match="without asking agent 'x'"):
        rollout(prompts_of(rollout, seeds=[0]), trainer)


def test_vllm_is_refused(trainer, monkeypatch):
    monkeypatch.setattr(trainer, "use_vllm", True)
    rollout = TeamRollout(own_word, "agent_1", {"agent_2": say("D")})
    with pytest.raises(ConfigError, match="use_vllm=False"):
        rollout(prompts_of(rollout), trainer)
