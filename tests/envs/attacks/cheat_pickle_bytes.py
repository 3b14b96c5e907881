# answers with bytes and texts that are programs to pickle, marshal and eval
import pickle


class Payload:
    def __reduce__(self):
        return eval, ("__import__('os').mkdir('/tmp/llm_marl_envs_canary/canary_pickled')",)


def incr(x):
    program = pickle.dumps(Payload(), protocol=0)
    text = "__import__('os').mkdir('/tmp/llm_marl_envs_canary/canary_evaluated')"
    return {1: program, 2: text, 5: {"py/object": "os.system", "py/reduce": [text]}, 10: "!!python/object/apply:" + text}[x]
