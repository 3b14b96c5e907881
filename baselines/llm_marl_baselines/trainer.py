"""The training loop: rows, rollouts, updates, evaluations, logs and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from pettingzoo import ParallelEnv

from llm_marl_envs import CollaborationEnv
from llm_marl_envs.errors import ConfigError
from llm_marl_envs.integrations.openai import EndpointError

from . import checkpoint, fingerprint, interrupts, parallel
from .algorithms.base import Algorithm
from .batch import Batch
from .config import TrainConfig
from .episodes import episode_steps, transcript
from .errors import Interrupted, NonFiniteError
from .evaluate import Evaluation, evaluate
from .measures import means, measures
from .optim import Optimizers
from .plan import Start
from .policies.base import Policy, TrainablePolicy
from .rollout import collect
from .runlog import Progress, RunLog, say
from .seeding import derive_seed
from .statistics import Interval

MakeEnv = Callable[[], ParallelEnv]


@dataclass
class Trainer:
    """One run. ``train()`` does all of it, in one process or several at once: each plays its block of a step's starts,
    all learn from the whole batch, and the main process alone writes and speaks.

    Args:
        config: the settings.
        algorithm: makes gradients of batches.
        policy: answers for the agents, and is trained.
        make_env, make_eval_env: build environments with the training and with the held-out rows.
        run: the run's folder.
        hyperparameters: all settings in one flat mapping, for trackers.
        others: agent -> who answers for it instead of ``policy``, and is not trained (an endpoint, a function ...).
    """

    config: TrainConfig
    algorithm: Algorithm
    policy: TrainablePolicy
    make_env: MakeEnv
    make_eval_env: MakeEnv
    run: Path
    hyperparameters: Mapping[str, Any]
    others: Mapping[str, Policy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        env = self.make_env()
        self.agents = list(env.possible_agents)
        self.policies: dict[str, Policy] = {agent: self.others.get(agent, self.policy) for agent in self.agents}
        self._num_rows = num_rows(env)
        self.num_turns: int | None = getattr(env, "num_turns", None)
        if own := [agent for agent in self.agents if agent not in self.others]:
            self.algorithm.prepare(self.policy, own)
        parameters = {learner: self.policy.parameters(learner) for learner in self.policy.learners}
        self.optimizers = Optimizers(parameters, self.config.optim, self.config.steps, self.policy.critics.names)

    def train(self, resume: bool = False) -> None:
        """Run all steps, or go on from the newest checkpoint.

        Raises:
            NonFiniteError: a reward, loss or gradient is not finite; the batch is saved first.
            Interrupted: Ctrl-C or SIGTERM; a checkpoint is saved first.
            ConfigError: another process is at work in the run's folder, or the processes of the run differ.
            ProcessLostError: one of several processes has ended.
        """
        with parallel.failing_together():
            try:
                with FileLock(self.run / ".lock", timeout=0) if parallel.is_main() else nullcontext():
                    self._train(resume)
            except Timeout as error:
                raise ConfigError(
                    f"Another process is training in {self.run}. Wait for it, or choose another --output."
                ) from error

    def _train(self, resume: bool) -> None:
        config, step, sizes = self.config, 0, None
        if state := parallel.from_main(lambda: self._open_folder(resume)):
            step, sizes = state["step"], state["log_sizes"]
            if not parallel.is_main():
                checkpoint.load(checkpoint.complete(self.run)[-1], self.policy, self.optimizers)
        parallel.check_equal(self._facts)
        log = progress = None
        if parallel.is_main():
            log = RunLog(self.run, sizes, config.trackers, self.hyperparameters, step)
            progress = Progress(config.steps, step)
        try:
            tell = progress.say if progress is not None else _say_nothing
            with interrupts.postponed(tell) as interrupted, ThreadPoolExecutor(8) as executor:
                saved_step = step if sizes is not None else -1
                if step == 0 and saved_step < 0:
                    self._evaluate(log, progress, 0, executor)
                while step < config.steps and not any(parallel.exchange(interrupted)):
                    self._step(log, progress, step, executor)
                    step += 1
                    every = config.eval_every
                    if step == config.steps or (every > 0 and step % every == 0):
                        self._evaluate(log, progress, step, executor)
                    if step % config.checkpoint_every == 0:
                        self._save(log, step)
                        saved_step = step
                if saved_step != step:
                    self._save(log, step)
                if step < config.steps:
                    raise Interrupted(f"Stopped after step {step} of {config.steps}, all saved.")
        finally:
            if progress is not None and log is not None:
                progress.close()
                log.close()

    def _open_folder(self, resume: bool) -> dict[str, Any] | None:
        """Make the folder fit to go on with; the ``state.json`` of the checkpoint that was read, if there was one."""
        checkpoint.clean(self.run)
        fingerprint.check(self.run, self._envs_with_rows(), begun=bool(checkpoint.complete(self.run)))
        return checkpoint.load_newest(self.run, self.policy, self.optimizers, say) if resume else None

    def _facts(self) -> dict[str, Any]:
        """What several processes must agree in, to stay one run."""
        rows = {f"{use} rows": fingerprint.fingerprint(env) for use, env in self._envs_with_rows().items()}
        learners = self.policy.learners
        weights = {f"weights of {name}": parallel.checksum(self.policy.parameters(name)) for name in learners}
        return {**self.hyperparameters, **rows, **weights}

    def _envs_with_rows(self) -> dict[str, ParallelEnv]:
        held_out = {"held-out": self.make_eval_env()} if self.config.eval_every >= 0 else {}
        return {"training": self.make_env(), **held_out}

    def _save(self, log: RunLog | None, step: int) -> None:
        if log is not None:
            checkpoint.save(self.run, step, self.policy, self.optimizers, log.sizes, self.config.keep_checkpoints)

    # -- one step -----------------------------------------------------------------------------------------------

    def starts(self, step: int) -> list[Start]:
        """The episode starts of a step, a function of (seed, step): every row once before any comes again."""
        chosen = []
        for n in range(step * self.config.rows_per_step, (step + 1) * self.config.rows_per_step):
            seed = derive_seed(self.config.seed, "start", n) % 2**31
            if self._num_rows is None:
                chosen.append(Start(seed))
                continue
            epoch, place = divmod(n, self._num_rows)
            order = np.random.default_rng(derive_seed(self.config.seed, "rows", epoch)).permutation(self._num_rows)
            chosen.append(Start(seed, {"index": int(order[place])}))
        return chosen

    def _step(self, log: RunLog | None, progress: Progress | None, step: int, executor: ThreadPoolExecutor) -> None:
        starts = self.starts(step)
        here = parallel.block(len(starts))

        def play() -> Batch:
            return collect(
                self.policies,
                self.make_env,
                starts[here.start : here.stop],
                self.algorithm.plan,
                seed=derive_seed(self.config.seed, "rollout", step),
                first=here.start,
                memory=self.config.prompts.memory,
                executor=executor,
            )

        clock = [time.perf_counter()]
        try:
            batch = Batch.join(parallel.exchange(play))
        except EndpointError:  # of a partner or an expert; it may be mended, and what was learned is kept
            self._save(log, step)
            raise
        clock.append(time.perf_counter())
        found: list[dict[str, float]] = []
        try:
            for stats in self.algorithm.update(batch, self.policy):
                norms = self.optimizers.step(step)
                # A learner that had no gradient in one of several passes does not count in that pass.
                found.append({**stats, **{f"{name}/grad_norm": n for name, n in norms.items() if n or not found}})
        except NonFiniteError as error:
            path = self.run / f"bad-batch-step-{step:06d}.npz"
            if log is not None:
                save_batch(path, batch, starts)
            weights = "The weights have moved since, so the newest checkpoint is an older one"
            if not found:
                self._save_as_sampled(log, step)
                weights = f"The weights that it was sampled with are in the checkpoint of step {step}"
            raise NonFiniteError(
                f"Step {step}: {error}. The batch is saved in {path}. {weights}. Lower optim.lr, or look at the "
                "batch's rewards and log-probabilities."
            ) from error
        except ConfigError:  # such as a joint history that is too long for the critic: what was learned is kept
            if not found:
                self._save_as_sampled(log, step)
            raise
        clock.append(time.perf_counter())
        if log is None or progress is None:
            return
        record: dict[str, Any] = {"step": step + 1, "phase": "train", **measures(batch, self.num_turns), **means(found)}
        record["lr"] = self.config.optim.lr_at(step, self.config.steps)
        log.metrics(record)
        tokens = sum(r.num_tokens for r in batch.responses)
        seconds = {"rollout": clock[1] - clock[0], "update": clock[2] - clock[1]}
        log.write(
            "timing.jsonl",
            {"step": step + 1, **seconds, "tokens": tokens, "tokens_per_s": tokens / max(clock[2] - clock[0], 1e-9)},
        )
        if self.config.samples_every and step % self.config.samples_every == 0:
            end = int(np.flatnonzero((batch.terminated | batch.truncated) & ~batch.greedy)[0])
            episode = transcript(batch, episode_steps(batch, end))
            log.write("samples.jsonl", {"step": step + 1, "phase": "train", **episode})
        spent = clock[2] - clock[0]
        progress.step({"score": record["score"], "tokens/s": tokens / max(spent, 1e-9)}, spent)

    def _save_as_sampled(self, log: RunLog | None, step: int) -> None:
        """Save after an update that failed in its first pass: no weight has moved since the batch was sampled."""
        self.policy.critics.undo()
        self._save(log, step)

    # -- evaluation ---------------------------------------------------------------------------------------------

    def eval_starts(self) -> list[Start]:
        """All held-out rows, or the first ``eval_rows``; for environments without rows as many seeds (16 if unset)."""
        rows = num_rows(self.make_eval_env())
        count = self.config.eval_rows or rows or 16
        if rows is None:
            return [Start(derive_seed(self.config.seed, "eval", i) % 2**31) for i in range(count)]
        return [Start(i, {"index": i}) for i in range(min(count, rows))]

    @property
    def eval_episodes(self) -> int:
        """Sampled episodes of each held-out row."""
        return self.config.eval_episodes or max(4, -(-64 // len(self.eval_starts())))

    def run_evaluation(self, greedy: bool, executor: ThreadPoolExecutor | None = None) -> Evaluation:
        """Play the held-out rows. The seed is the same at every step, so that evaluations can be compared."""
        return evaluate(
            self.policies,
            self.make_eval_env,
            self.eval_starts(),
            seed=derive_seed(self.config.seed, "evaluation"),
            episodes=self.eval_episodes,
            greedy=greedy,
            memory=self.config.prompts.memory,
            executor=executor,
        )

    def _evaluate(self, log: RunLog | None, progress: Progress | None, step: int, executor: ThreadPoolExecutor) -> None:
        if self.config.eval_every < 0:
            return
        for phase in ("eval", "eval_greedy"):
            found = self.run_evaluation(phase == "eval_greedy", executor)
            if log is None or progress is None:
                continue
            summary = found.summary()
            log.metrics({"step": step, "phase": phase, **summary})
            # One episode of each row is enough to read.
            for i, episode in enumerate(found.transcripts[:: found.scores.shape[1]]):
                log.write("samples.jsonl", {"step": step, "phase": phase, "row": i, **episode})
            if phase == "eval":
                progress.say(f"held-out score at step {step}: {Interval.of(summary)}")


def num_rows(env: ParallelEnv) -> int | None:
    """Rows of an environment of ours; None for others, whose episodes are picked by seed alone."""
    base = env.unwrapped
    return len(base.rows) if isinstance(base, CollaborationEnv) else None


def save_batch(path: Path, batch: Batch, starts: Sequence[Start]) -> Path:
    """Write the arrays and texts of a batch, and where its episodes started, for a post-mortem."""
    ids, mask, logprobs = batch.tokens()
    np.savez_compressed(
        path,
        token_ids=ids,
        mask=mask,
        logprobs=logprobs,
        rewards=batch.rewards,
        step_response=batch.step_response,
        step_node=batch.step_node,
        step_share=batch.step_share,
        greedy=batch.greedy,
        response_agent=batch.response_agent,
        response_node=batch.response_node,
        weight=batch.weight,
        root=batch.root,
        turn=batch.turn,
        parent_step=batch.parent_step,
        texts=np.array([r.raw_text for r in batch.responses]),
        prompts=np.array([" ".join(map(str, r.prompt_ids)) for r in batch.responses]),
        starts=np.array([repr(start) for start in starts]),
    )
    return path


def _say_nothing(text: str) -> None:
    """Only the main process speaks."""
