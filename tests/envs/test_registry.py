"""The table of environments: make, register, did-you-mean, PettingZoo's registry."""

from __future__ import annotations

import importlib.metadata
import pickle
import sys

import pettingzoo
import pytest
from coding_rows import keywords
from pettingzoo import ParallelEnv
from toys import toy

import llm_marl_envs
from llm_marl_envs import CollaborationEnv, make, register, registered
from llm_marl_envs.errors import ConfigError, LlmMarlError, UnknownNameError
from llm_marl_envs.registry import BUILT_IN, ENVIRONMENTS

ZOO = tuple(map(int, importlib.metadata.version("pettingzoo").split(".")[:2]))


@pytest.fixture
def clean_table(monkeypatch):
    """Whatever a test registers is forgotten after it."""
    monkeypatch.setattr(ENVIRONMENTS, "_entries", dict(ENVIRONMENTS._entries))


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_every_id_makes_a_parallel_environment(env_id):
    env = make(env_id, **keywords(env_id))
    assert isinstance(env, ParallelEnv) and isinstance(env, CollaborationEnv)
    assert env.metadata["id"] == env_id and env.metadata["name"] == env_id.rpartition("-v")[0]
    observations, _ = env.reset(seed=0)
    assert list(observations) == env.possible_agents


def test_the_ids_are_sorted_and_versioned():
    ids = registered()
    assert ids == sorted(ids) and all(i.rpartition("-v")[2] == "0" for i in ids)
    assert {"probe/own-word-v0", "probe/same-word-v0", "probe/two-turn-v0"} < set(ids)
    assert {"writing/tldr-v0", "writing/arxiv-v0"} < set(ids)
    assert {"coding/coop-humaneval-v0", "coding/humaneval-v0", "coding/mbpp-v0"} < set(ids)


@pytest.mark.parametrize(
    "env_id, words",
    [
        ("writing/tdlr-v0", "Did you mean 'writing/tldr-v0'"),
        ("probe/own-wrod-v0", "Did you mean 'probe/own-word-v0'"),
        ("probe/own-word", "needs its version: 'probe/own-word-v0'"),
        ("probe/own-word-v7", "this release has 'probe/own-word-v0'"),
        ("nothing/like-it-v0", "Known: coding/coop-humaneval-v0, "),
        ("", "Unknown environment"),
        ("no_such_module:x/y-v0", "no module 'no_such_module'"),
        ("json:x/y-v0", "Module 'json' registers no environment 'x/y-v0'.*registers none.*register"),
        ("llm_marl_envs.probes:probe/own-wrod-v0", "Module 'llm_marl_envs.probes'.*Did you mean 'probe/own-word-v0'"),
    ],
)
def test_an_unknown_id_is_helped_on(env_id, words):
    with pytest.raises(UnknownNameError, match=words) as error:
        make(env_id)
    assert isinstance(error.value, LookupError) and isinstance(error.value, LlmMarlError)


def test_an_old_version_names_the_newest(clean_table):
    for version in (2, 10):
        register(f"toy/versions-v{version}", toy)
    with pytest.raises(UnknownNameError, match="no 'toy/versions-v1'; this release has 'toy/versions-v10'"):
        make("toy/versions-v1")


def test_keywords_are_passed_on():
    env = make("probe/own-word-v0", num_agents=3, num_turns=2, history="full")
    assert len(env.possible_agents) == 3 and env.num_turns == 2 and env.history == "full"


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_an_unknown_keyword_is_helped_on(env_id):
    with pytest.raises(
        ConfigError, match="takes no keyword 'num_turn'. Did you mean 'num_turns'.*history.*render_mode"
    ):
        make(env_id, num_turn=3, **keywords(env_id))


def test_a_fault_inside_an_entry_point_is_not_taken_for_a_bad_keyword(clean_table):
    def paint(shade):
        return shade

    def broken(**kwargs):
        return paint(colour="red")

    register("toy/broken-v0", broken)
    with pytest.raises(TypeError, match="paint.*'colour'"):
        make("toy/broken-v0", num_turns=1)


def test_a_keyword_that_is_needed_is_named(clean_table):
    def played(game, *, players, num_turns=1):
        return toy(num_turns=num_turns)

    register("toy/played-v0", played)
    with pytest.raises(
        ConfigError, match=r"toy/played-v0 cannot be made without game, players: make\('toy/played-v0', "
    ):
        make("toy/played-v0")
    with pytest.raises(ConfigError, match="without players:"):
        make("toy/played-v0", game="chess")
    assert make("toy/played-v0", game="chess", players=2, num_turns=3).num_turns == 3


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    (tmp_path / "poems_of_mine.py").write_text(
        "import llm_marl_envs, toys\n"
        "def poem(**kwargs):\n    return toys.toy(**kwargs)\n"
        "llm_marl_envs.register('mine/poem-v0', 'poems_of_mine:poem')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("poems_of_mine", None)


def test_a_module_prefix_imports_the_module_first(clean_table, third_party):
    with pytest.raises(UnknownNameError):
        make("mine/poem-v0")
    env = make("poems_of_mine:mine/poem-v0", num_turns=4)
    assert env.num_turns == 4 and "poems_of_mine" in sys.modules
    assert env.metadata["id"] == "mine/poem-v0" and "mine/poem-v0" in registered()
    assert make("mine/poem-v0").num_turns == 1
    assert type(pickle.loads(pickle.dumps(env))) is CollaborationEnv


def test_bad_registrations_are_refused(clean_table):
    for env_id in ("poem", "toy/poem", "toy/poem-v", "toy/poem-0", "/poem-v0", "toy/a b-v0"):
        with pytest.raises(ConfigError, match="namespace/name-v0"):
            register(env_id, toy)
    register("toy/poem-v0", toy)
    register("toy/poem-v0", toy)  # as a module that is imported again does
    with pytest.raises(ConfigError, match="registered already"):
        register("toy/poem-v0", "elsewhere:poem")


def test_an_entry_point_that_does_not_exist_is_named(clean_table):
    register("toy/gone-v0", "toys:gone")
    with pytest.raises(UnknownNameError, match="'toys' has no attribute 'gone'"):
        make("toy/gone-v0")


@pytest.mark.skipif(ZOO < (1, 27), reason="PettingZoo has a registry from 1.27")
@pytest.mark.parametrize("env_id", BUILT_IN)
def test_pettingzoo_makes_both_forms(env_id):
    given = keywords(env_id)
    parallel = pettingzoo.make("parallel", env_id, render_mode="ansi", **given)
    assert isinstance(parallel.unwrapped, CollaborationEnv) and parallel.render_mode == "ansi"
    assert parallel.reset(seed=0)[0] == make(env_id, **given).reset(seed=0)[0]
    aec = pettingzoo.make("aec", env_id, **given)
    aec.reset(seed=0)
    assert aec.observe(aec.agent_selection) == parallel.reset(seed=0)[0][aec.agent_selection]


@pytest.mark.skipif(ZOO < (1, 27), reason="PettingZoo has a registry from 1.27")
def test_pettingzoo_knows_what_others_register(clean_table):
    register("toy/shown-v0", toy)
    assert pettingzoo.make("parallel", "toy/shown-v0").reset(seed=0)[0] == toy().reset(seed=0)[0]


@pytest.mark.parametrize("env_id", ["writing/tldr-v0", "writing/arxiv-v0"])
def test_the_modules_functions_give_both_forms(env_id):
    module = __import__(f"llm_marl_envs.writing.{env_id[8:-3]}", fromlist=["env"])
    assert module.parallel_env().reset(seed=2)[0] == make(env_id).reset(seed=2)[0]
    aec = module.env(num_turns=2)
    aec.reset(seed=2)
    assert aec.agent_selection == aec.possible_agents[0]


def test_the_public_names_are_there():
    assert all(hasattr(llm_marl_envs, name) for name in llm_marl_envs.__all__)
