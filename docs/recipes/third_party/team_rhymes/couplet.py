"""rhymes/couplet-v0: two agents write a line each, at once, and are paid if the lines rhyme.

Reward (0 to 1.5): `rhyme` 1 if both lines end in the same letter or digit; `fresh` 0.5 more if the lines differ. Lines
that do not rhyme earn nothing. Version history: v0, first version.
"""

from llm_marl_envs import CollaborationEnv, Score, Task, load_rows

TOPICS = {"train": ("rain", "tea", "trains", "snow"), "eval": ("cats", "bread")}
ROWS = [{"id": topic, "topic": topic, "split": split} for split in TOPICS for topic in TOPICS[split]]


class Couplet(Task):
    name = "rhymes/couplet"
    agents = ("opener", "closer")
    max_terms = {"rhyme": 1.0, "fresh": 0.5}
    fields = ("topic",)
    can_finish_early = True

    def __init__(self, longest: int = 200):
        self.max_response_length = longest

    def prompt(self, row, agent):
        return f"You are the {agent} of a couplet about {row['topic']}. Write your line. Both lines must rhyme."

    def score(self, row, responses):
        ends = {last_letter(text) for text in responses.values()}
        rhyme = float(len(ends) == 1 and ends != {""})
        fresh = 0.5 * rhyme * (len(set(responses.values())) == 2)
        return Score.of({"rhyme": rhyme, "fresh": fresh}, solved=fresh > 0)


def last_letter(text):
    """The last letter or digit of a line, "" if there is none."""
    return next((c.lower() for c in reversed(text) if c.isalnum()), "")


def partners_end(row, transcript, score, agent):
    """Feedback: how the other line ended, to rhyme with it in the next turn."""
    ends = [f"{other}: {last_letter(text)!r}" for other, text in transcript[-1].actions.items() if other != agent]
    return f"The other line ended in ({', '.join(ends)}). Write your line again."


def parallel_env(longest=200, data=ROWS, split="train", **kwargs):
    task = Couplet(longest)
    return CollaborationEnv(task, load_rows(data, split=split, required=task.fields), **kwargs)
