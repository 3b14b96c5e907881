"""`check_env` passes what is right, and names what is wrong: one broken environment per rule."""

from __future__ import annotations

import random
import re
import warnings

import numpy as np
import pytest
from coding_rows import keywords
from gymnasium.spaces import Discrete, Text
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec
from pettingzoo.utils.wrappers import BaseParallelWrapper
from toys import ROWS, LettersTask, endless, toy

from llm_marl_envs import CollaborationEnv, UnicodeText, check_env, load_rows, make
from llm_marl_envs.checks import examine
from llm_marl_envs.errors import CheckFailedError
from llm_marl_envs.registry import BUILT_IN

# -- what is right ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_every_registered_environment_passes(env_id):
    assert check_env(make(env_id, **keywords(env_id))) == []


@pytest.mark.parametrize("env_id", [i for i in BUILT_IN if i.startswith("writing/")])
def test_writing_environments_pass_with_every_option(env_id):
    options = {"num_turns": 3, "history": "full", "share_responses": True, "max_text_length": 1000}
    for feedback in ("revise", "signals", "diagnosis"):
        check_env(make(env_id, feedback=feedback, reward_mode="individual", render_mode="ansi", **options))


def test_our_toys_pass():
    check_env(toy(num_turns=4))
    check_env(endless(num_turns=100))


def test_the_environment_is_usable_after_it_and_its_limits_are_its_own():
    env = toy(num_turns=4)
    check_env(env)
    assert env.reset(seed=3) == toy(num_turns=4).reset(seed=3)
    assert not hasattr(env, "max_cycles")  # which PettingZoo's test sets


# -- what is wrong ----------------------------------------------------------------------------------------------------


class Broken(CollaborationEnv):
    """Right in all but one thing, which a subclass gets wrong. A class body may define rows or a task."""

    turns_to_play = 3

    def __init__(self):
        super().__init__(LettersTask(), load_rows(ROWS), num_turns=self.turns_to_play)


class WrapsNothing:
    metadata = {"name": "no environment"}


class ObservationOutside(Broken):
    def reset(self, seed=None, options=None):
        observations, infos = super().reset(seed, options)
        return {**observations, "right": 7}, infos


class LaterObservationOutside(Broken):
    def step(self, actions):
        observations, *rest = super().step(actions)
        return {a: type(o)("\ud800") for a, o in observations.items()}, *rest


class NoLastObservation(Broken):
    def step(self, actions):
        observations, *rest = super().step(actions)
        return (observations if self.agents else {}), *rest


class NoLastInfo(Broken):
    def step(self, actions):
        *rest, infos = super().step(actions)
        return *rest, {a: i for a, i in infos.items() if a == "left" or self.agents}


class AgentsStay(Broken):
    def step(self, actions):
        result = super().step(actions)
        self.agents = list(self.possible_agents)
        return result


class ResetWithoutOptions(Broken):
    def reset(self, seed=None):
        return super().reset(seed)


class NewSpaces(Broken):
    def action_space(self, agent):
        return UnicodeText(100)


class Unseeded(Broken):
    def reset(self, seed=None, options=None):
        return super().reset(None, options)


class NoisyLater(Broken):
    """Right at reset and at the first step, which is as far as PettingZoo's seed test looks."""

    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        if len(self.turns) > 1:
            rewards = {a: r + np.random.default_rng().random() for a, r in rewards.items()}
        return observations, rewards, *rest


class FewNumbers(Broken):
    def __init__(self):
        super().__init__()
        self.numbers = {a: Discrete(3) for a in self.possible_agents}

    def action_space(self, agent):
        return self.numbers[agent]

    def step(self, actions):
        return super().step({a: "x" * int(n) for a, n in actions.items()})


class AsciiText(Broken):
    """Text, but not as Gymnasium's default space of letters knows it."""

    def __init__(self):
        super().__init__()
        self.observation_spaces = {a: Text(65_536) for a in self.possible_agents}


class PlainStrings(Broken):
    def reset(self, seed=None, options=None):
        observations, infos = super().reset(seed, options)
        return {a: str(o) for a, o in observations.items()}, infos

    def step(self, actions):
        observations, *rest = super().step(actions)
        return {a: str(o) for a, o in observations.items()}, *rest


class RewardForNobody(Broken):
    """Only PettingZoo's AEC test minds a reward for somebody who is no agent."""

    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        return observations, {**rewards, "nobody": 1.0}, *rest


class NoPickle(Broken):
    def __init__(self):
        super().__init__()
        self.hook = lambda: None


class AgentLeaves(Broken):
    """`right` leaves after the first turn, and the episode goes on without it."""

    def step(self, actions):
        alone = bool(self.turns and self.agents)
        if alone:
            self.agents, actions = list(self.possible_agents), {"right": "", **actions}
        result = super().step(actions)
        if alone:
            result = tuple({"left": values["left"]} for values in result)
        elif self.agents:
            result[2]["right"] = True
        self.agents = self.agents[:1]
        return result


class NeverEnds(Broken):
    turns_to_play = 1

    def step(self, actions):
        row, turns = self.row, self.turns
        observations, rewards, terminations, truncations, infos = super().step(actions)
        self.agents, self.row, self.turns = list(self.possible_agents), row, turns
        return observations, rewards, dict.fromkeys(terminations, False), truncations, infos


class NanReward(Broken):
    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        return observations, dict.fromkeys(rewards, float("nan")), *rest


class NoTerms(Broken):
    def step(self, actions):
        *rest, infos = super().step(actions)
        return *rest, {a: {"score": i["score"]} for a, i in infos.items()}


class TextInResetInfo(Broken):
    def reset(self, seed=None, options=None):
        observations, infos = super().reset(seed, options)
        return observations, {a: {"prompt": "text"} for a in infos}


class HalfAct(Broken):
    def step(self, actions):
        *rest, infos = super().step(actions)
        return *rest, {a: {**i, "acts": 0.5} for a, i in infos.items()}


class HiddenRandom(Broken):
    inside = False

    @property
    def np_random(self):
        if not self.inside:
            raise AttributeError("np_random")
        return CollaborationEnv.np_random.fget(self)

    def reset(self, seed=None, options=None):
        self.inside = True
        result = super().reset(seed, options)
        self.inside = False
        return result


class NoState(Broken):
    def state(self):
        raise NotImplementedError


class NarrowState(Broken):
    def __init__(self):
        super().__init__()
        self.state_space = UnicodeText(120)


class CloneIsItself(Broken):
    def clone(self, seed=None):
        return self


class CloneShares(Broken):
    """A shallow copy: the list of agents and the generator are one."""

    def clone(self, seed=None):
        twin = super().clone(seed)
        twin._np_random = self._np_random
        return twin

    def step(self, actions):
        self.np_random.random()
        return super().step(actions)


class CloneTellsBack(Broken):
    """A clone that moves the original, but not the other way round."""

    origin = None

    def clone(self, seed=None):
        twin = super().clone(seed)
        twin.origin = self
        return twin

    def step(self, actions):
        if self.origin is not None:
            self.origin.np_random.random()
        return super().step(actions)


class CloneStartsAnew(Broken):
    def clone(self, seed=None):
        twin = super().clone(seed)
        twin.reset(options={"index": 0})
        return twin


class CloneDrifts(Broken):
    """Like the original for one step, but not for two."""

    drift = False

    def clone(self, seed=None):
        twin = super().clone(seed)
        twin.drift = True
        return twin

    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        if self.drift and len(self.turns) == 3:
            rewards = dict.fromkeys(rewards, 5.0)
        return observations, rewards, *rest


class CloneWithoutSeed(Broken):
    def clone(self):
        return super().clone()


class TakesAnything(Broken):
    def step(self, actions):
        return super().step({a: str(actions.get(a, ""))[:100] for a in self.possible_agents})


class TakesStrangers(Broken):
    def step(self, actions):
        return super().step({a: t for a, t in actions.items() if a in self.possible_agents})


class NamelessRefusal(Broken):
    def step(self, actions):
        try:
            return super().step(actions)
        except ValueError:
            raise ValueError("bad action") from None


class LimitlessRefusal(Broken):
    def step(self, actions):
        try:
            return super().step(actions)
        except ValueError as error:
            raise ValueError(str(error).replace("65,536", "it")) from None


class ChangesFirst(Broken):
    def step(self, actions):
        self.np_random.random()
        return super().step(actions)


class HiddenChange(Broken):
    """A refused step leaves a mark that only a later step shows."""

    refused = 0

    def step(self, actions):
        self.refused += 1
        observations, rewards, *rest = super().step(actions)
        self.refused -= 1
        return observations, {a: r + self.refused for a, r in rewards.items()}, *rest

    def reset(self, seed=None, options=None):
        self.refused = 0
        return super().reset(seed, options)


class StepsAfterTheEnd(Broken):
    def step(self, actions):
        if not self.agents:
            return {}, {}, {}, {}, {}
        return super().step(actions)


class SilentAfterTheEnd(Broken):
    def step(self, actions):
        if not self.agents:
            raise RuntimeError("no")
        return super().step(actions)


class MovesGlobalRandom(Broken):
    def reset(self, seed=None, options=None):
        random.seed(seed)
        return super().reset(seed, options)


class MovesGlobalNumpy(Broken):
    def reset(self, seed=None, options=None):
        np.random.seed(seed)
        return super().reset(seed, options)


class UsesGlobalRandom(Broken):
    def step(self, actions):
        random.random()
        return super().step(actions)


class UsesTorch(Broken):
    def step(self, actions):
        pytest.importorskip("torch").rand(1)
        return super().step(actions)


class NoAgents(Broken):
    def __init__(self):
        super().__init__()
        self.possible_agents = None


class AgentsOfNobody(Broken):
    def reset(self, seed=None, options=None):
        result = super().reset(seed, options)
        self.agents = ["somebody"]
        return result


class NoSpace(Broken):
    def observation_space(self, agent):
        return None


class SpaceRaises(Broken):
    def observation_space(self, agent):
        return {}[agent]


class ResetAsLongAgo(Broken):
    def reset(self, seed=None, options=None):
        return super().reset(seed, options)[0]


class StepAsLongAgo(Broken):
    def step(self, actions):
        observations, rewards, terminations, _, infos = super().step(actions)
        return observations, rewards, terminations, infos


class FirstSeenByOne(Broken):
    def reset(self, seed=None, options=None):
        observations, infos = super().reset(seed, options)
        return {"left": observations["left"]}, infos


class InfoIsNone(Broken):
    def step(self, actions):
        *rest, infos = super().step(actions)
        return *rest, dict.fromkeys(infos)


class OneReward(Broken):
    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        return observations, rewards["left"], *rest


class NoReward(Broken):
    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        return observations, {**rewards, "right": None}, *rest


class DoneInWords(Broken):
    def step(self, actions):
        observations, rewards, terminations, *rest = super().step(actions)
        return observations, rewards, {a: "yes" if t else "" for a, t in terminations.items()}, *rest


class RaisesInReset(Broken):
    def reset(self, seed=None, options=None):
        raise KeyError("topic")


class ComesBack(AgentLeaves):
    """`right` leaves after the first turn, and is there again after the second."""

    def step(self, actions):
        result = super().step(actions)
        if len(self.turns) == 2:
            self.agents = list(self.possible_agents)
        return result


class RefusesOptions(Broken):
    """Only PettingZoo's own test hands in an option that nobody knows."""

    def reset(self, seed=None, options=None):
        if set(options or {}) - {"index", "id"}:
            raise KeyError("which option?")
        return super().reset(seed, options)


class StateStandsStill(Broken):
    def state(self):
        return self.row["text"]


class RaisesInState(Broken):
    def state(self):
        return self.nothing


class RaisesInClone(Broken):
    def clone(self, seed=None):
        raise OSError("no room")


class RaisesInStep(Broken):
    def step(self, actions):
        if len(self.turns) == 1:
            raise ZeroDivisionError("oh")
        return super().step(actions)


PETTINGZOO_RULES = [
    (
        ObservationOutside,
        "observation of agent 'right' lies outside its observation_space.* at reset.*: 7 .*of type int, and must be a str.*[Ww]iden",
    ),
    (LaterObservationOutside, "observation of agent 'left' lies outside its observation_space.*ud800"),
    (AsciiText, "observation of agent 'left' lies outside its observation_space"),
    (NoLastObservation, "dict of observations has no entry for .'left', 'right'. at step 3.*all five dicts"),
    (NoLastInfo, "dict of infos has no entry for .'right'. at step 3.*all five dicts"),
    (AgentsStay, r"agents \['left', 'right'\] ended at step 3.*still in env.agents.*self.agents = "),
    (ResetWithoutOptions, "takes no options=.*def reset"),
    (NewSpaces, r"action_space\('left'\) is not the exact same space object.*self.action_spaces = "),
    (Unseeded, r"seed is not kept to.*differ at reset\(seed=...\): observations\['left'\].*self.np_random"),
    (NoisyLater, r"differ at step 2: rewards\['left'\]: .*against.*self.np_random"),
    (NanReward, "reward of agent 'left' is nan at step 1.*finite number.*None or nan"),
    (RewardForNobody, "dict of rewards has an entry for .'nobody'. at step 1.*Leave out"),
    (NoAgents, r"env.possible_agents is None.*In __init__: self.possible_agents"),
    (AgentsOfNobody, r"env.agents is \['somebody'\] after reset\(\).*self.agents = list"),
    (NoSpace, r"observation_space\('left'\) is None.*UnicodeText"),
    (SpaceRaises, r"observation_space\('left'\) raised KeyError: 'left' \(in .*observation_space\(\): 'return {}"),
    (ResetAsLongAgo, r"reset\(\) returned a dict; it must return two dicts.*return observations, {agent: {}"),
    (StepAsLongAgo, r"step\(\) returned a tuple of 4; it must return five dicts: .*`done`"),
    (FirstSeenByOne, r"dict of observations has no entry for \['right'\] at reset"),
    (InfoIsNone, r"infos\['left'\] is None at step 1.*{} if there is nothing"),
    (OneReward, r"rewards is a float at step 1.*rewards = {agent: "),
    (NoReward, "reward of agent 'right' is None at step 1.*float"),
    (DoneInWords, r"terminations\['left'\] is '' at step 1.*True or False"),
    (RaisesInReset, r"reset\(seed=7\) raised KeyError: 'topic' \(in .*reset\(\): 'raise KeyError"),
    (
        RefusesOptions,
        r"PettingZoo's parallel_api_test failed: KeyError: 'which option.' \(in .*from pettingzoo.test import",
    ),
    (ComesBack, r"agents \['right'\] are in env.agents again at step 2"),
    (
        RaisesInStep,
        r"Step 2 after .* raised ZeroDivisionError: oh \(in .*test_checks.py, line \d+, step\(\): 'raise Zero.*the actions were",
    ),
]
OUR_RULES = [
    (FewNumbers, r"action_space\('left'\) is Discrete\(3\).*UnicodeText"),
    (PlainStrings, "observation of agent 'left' is a plain str.*TextObservation"),
    (NoPickle, "cannot be pickled.*lambda"),
    (AgentLeaves, r"env.agents is \['left'\].*acts"),
    (NeverEnds, "did not end within 1,000 steps.*finite horizon"),
    (NoTerms, r"infos\['left'\]\['terms'\] is None"),
    (TextInResetInfo, r"infos\['left'\]\['prompt'\] at reset is 'text'.*numeric"),
    (HalfAct, "'acts'.*0.5.*0.*or 1"),
    (HiddenRandom, "no np_random"),
    (RaisesInState, r"state\(\) at reset.*AttributeError.*state\(\): 'return self.nothing"),
    (StateStandsStill, r"state\(\) hides what happened in step 1.*every observation and action"),
    (RaisesInClone, r"clone\(\) raised OSError: no room"),
    (UsesGlobalRandom, "Python's global `random`.*belongs to whoever.*self.np_random"),
    (UsesTorch, "PyTorch's global generator"),
    (NoState, r"there is no state\(\).*state_space = "),
    (NarrowState, r"left its state_space UnicodeText\(0, 120\) at (reset|step \d)"),
    (CloneIsItself, "returned the environment itself"),
    (CloneShares, "stepping the original changed its clone"),
    (CloneTellsBack, "stepping a clone changed the original"),
    (CloneStartsAnew, "clone taken after . steps goes on differently"),
    (CloneDrifts, "clone taken after 0 steps goes on differently: .*5.0"),
    (CloneWithoutSeed, r"clone\(seed=...\)"),
    (TakesAnything, "accepted an action of the wrong type .'left'..*InvalidActionError"),
    (TakesStrangers, "accepted an unknown agent"),
    (NamelessRefusal, "wrong type raises.*does not name the agent 'left'"),
    (LimitlessRefusal, "over the limit raises.*does not name the limit, 65,536"),
    (ChangesFirst, "raised, but changed the environment before"),
    (HiddenChange, "after refused steps the episode goes on differently"),
    (StepsAfterTheEnd, "after the episode ended did not raise"),
    (SilentAfterTheEnd, "after the episode ended raises.*call reset"),
    (MovesGlobalRandom, "Python's global `random`"),
    (MovesGlobalNumpy, "NumPy's global generator"),
]


def named(rules):
    return [pytest.param(*rule, id=rule[0].__name__) for rule in rules]


@pytest.mark.parametrize("broken, words", named(PETTINGZOO_RULES + OUR_RULES))
def test_a_broken_environment_fails_with_words_that_name_the_fault(broken, words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CheckFailedError, match=f"(?i){words}"):
            check_env(broken())


def test_the_broken_ones_are_broken_in_one_thing_only():
    check_env(Broken())


@pytest.mark.parametrize("broken, words", named(PETTINGZOO_RULES))
def test_pettingzoos_rules_are_demanded_of_third_parties_too(broken, words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CheckFailedError, match=f"(?i){words}"):
            check_env(broken(), strict=False)


@pytest.mark.parametrize("broken, words", named(OUR_RULES))
def test_our_additions_are_notes_for_third_parties(broken, words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        notes = check_env(broken(), strict=False)
    assert any(re.search(f"(?i){words}", note) for note in notes), notes


# -- several at once --------------------------------------------------------------------------------------------------


class Careless(MovesGlobalRandom, NoPickle, NoTerms, CloneIsItself):
    """Wrong in four things that have nothing to do with each other."""


def test_all_that_is_wrong_is_told_at_once():
    found = examine(Careless())
    assert [f.demanded for f in found] == [False] * 4
    for words in ("Python's global", "cannot be pickled", "['terms']", "returned the environment itself"):
        assert sum(words in f.found for f in found) == 1, words
    with pytest.raises(CheckFailedError, match="^4 things to mend:\n1. ") as error:
        check_env(Careless())
    assert all(f.found in str(error.value) and f.mend in str(error.value) for f in found)
    assert check_env(Careless(), strict=False) == [str(f) for f in found]


@pytest.mark.parametrize("broken", [rule[0] for rule in PETTINGZOO_RULES], ids=lambda b: b.__name__)
def test_one_fault_is_told_once(broken):
    """Rules that rely on a broken one are not tried, so that nobody reads one thing in six ways."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len([f for f in examine(broken()) if f.demanded]) == 1


# -- third parties ----------------------------------------------------------------------------------------------------


class Guess(ParallelEnv):
    """A plain environment as PettingZoo's tutorial teaches it: numbers, no state, no clone, 200 steps."""

    metadata = {"name": "guess_v0", "render_modes": []}

    def __init__(self):
        self.possible_agents = ["one", "two"]
        self.agents = []
        self.render_mode = None
        self._spaces = {a: Discrete(4) for a in self.possible_agents}

    def observation_space(self, agent):
        return self._spaces[agent]

    def action_space(self, agent):
        return self._spaces[agent]

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.agents, self.time = list(self.possible_agents), 0
        return {a: np.int64(self.rng.integers(4)) for a in self.agents}, {a: {} for a in self.agents}

    def step(self, actions):
        self.time += 1
        agents, over = self.agents, self.time == 200
        self.agents = [] if over else list(agents)
        seen = {a: np.int64(self.rng.integers(4)) for a in agents}
        rewards = {a: float(actions[a] == 1) for a in agents}
        return seen, rewards, dict.fromkeys(agents, False), dict.fromkeys(agents, over), {a: {} for a in agents}


def test_a_plain_environment_of_a_third_party_passes_with_notes():
    env = Guess()
    notes = check_env(env, strict=False)
    assert len(notes) >= 4
    for word in ("UnicodeText", "state_space", "np_random", "clone()"):
        assert any(word in note for note in notes), word
    with pytest.raises(CheckFailedError, match="UnicodeText"):
        check_env(env)


def test_an_environment_that_cannot_be_copied_can_still_be_checked():
    class Uncopyable(Guess):
        def __reduce_ex__(self, protocol):
            raise TypeError("holds a socket")

    notes = check_env(Uncopyable(), strict=False)
    assert any("holds a socket" in note for note in notes)


class Wrapped(BaseParallelWrapper):
    """A wrapper that defines no clone(): PettingZoo's base would forward to the unwrapped environment's."""


def test_a_wrapper_without_its_own_clone_is_found():
    with pytest.raises(CheckFailedError, match="defines no clone.*wrapper must define its own"):
        check_env(Wrapped(toy(num_turns=2)))


def test_only_parallel_environments_are_checked():
    aec = parallel_to_aec(toy())
    assert isinstance(aec, AECEnv)
    with pytest.raises(CheckFailedError, match="not a pettingzoo.ParallelEnv.*aec_to_parallel"):
        check_env(aec)
    with pytest.raises(CheckFailedError, match="WrapsNothing is not"):
        check_env(WrapsNothing())


def test_a_failed_check_is_an_assertion():
    assert issubclass(CheckFailedError, AssertionError)
