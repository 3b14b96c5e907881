# answers with objects that act when they are unpickled, copied, compared, formatted or collected
import os


class Payload:
    def __reduce_ex__(self, protocol):
        return os.mkdir, ("/tmp/llm_marl_envs_canary/canary_payload",)

    def act(self, *_):
        os._exit(0)

    __reduce__ = __getstate__ = __deepcopy__ = __copy__ = __eq__ = __repr__ = __format__ = __bool__ = __len__ = act
    __hash__ = None


def incr(x):
    return {1: Payload(), 2: [Payload()], 5: {"k": (Payload(),)}, 10: Payload}[x]
