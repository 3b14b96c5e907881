"""BenchMARL's MAPPO on a menu view: two agents choose from four answers on each of two turns."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from benchmarl.algorithms import MappoConfig
from benchmarl.environments.pettingzoo.common import PettingZooClass
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from torchrl.envs import EnvBase, PettingZooWrapper

from llm_marl_envs import make
from llm_marl_envs.wrappers import TokenView

ENV_ID = "probe/two-turn-v0"
ITERATIONS = 12


def team() -> TokenView:
    """Observations: 96 bytes as float32. Actions: one of four answers, since BenchMARL's policies are Discrete."""
    return TokenView(make(ENV_ID), length=96, actions="menu", menu=["A", "B", "C", "D"])


class TeamTask(PettingZooClass):
    """BenchMARL's own PettingZoo task, with our environment in it."""

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], EnvBase]:
        return lambda: PettingZooWrapper(team(), categorical_actions=True, seed=seed, device=device)

    def supports_continuous_actions(self) -> bool:
        return False

    def supports_discrete_actions(self) -> bool:
        return True

    def has_render(self, env: EnvBase) -> bool:
        return False

    def max_steps(self, env: EnvBase) -> int:
        return 2

    @staticmethod
    def env_name() -> str:
        return "llm_marl_envs"


class Returns(Callback):
    """Keeps the mean return of each batch: the joint reward, averaged over agents and episodes."""

    def __init__(self) -> None:
        super().__init__()
        self.means: list[float] = []

    def on_batch_collected(self, batch: Any) -> None:
        self.means.append(self.experiment.mean_return)
        print(f"iteration {len(self.means):2}: mean return {self.means[-1]:.2f}")


def main() -> None:
    config = ExperimentConfig.get_from_yaml()
    config.loggers, config.create_json, config.evaluation, config.render = [], False, False, False
    config.max_n_iters, config.max_n_frames = ITERATIONS, None
    config.on_policy_collected_frames_per_batch, config.on_policy_n_envs_per_worker = 400, 10
    config.on_policy_minibatch_size, config.on_policy_n_minibatch_iters = 100, 4
    # Each agent has a network of its own: their observations differ in one byte, which a shared one hardly sees.
    config.lr, config.share_policy_params = 3e-4, False
    algorithm = MappoConfig.get_from_yaml()
    algorithm.entropy_coef = 0.01
    returns = Returns()
    with tempfile.TemporaryDirectory() as folder:
        config.save_folder = folder
        model = MlpConfig.get_from_yaml()
        Experiment(TeamTask("two_turn", {}), algorithm, model, 0, config, model, callbacks=[returns]).run()
    before, after = returns.means[0], returns.means[-1]
    if after < 0.8:
        raise SystemExit(f"nothing was learned: mean return {before:.2f} -> {after:.2f}")
    print(f"trained MAPPO for {ITERATIONS} iterations on {ENV_ID}: mean return {before:.2f} -> {after:.2f}")


if __name__ == "__main__":
    main()
