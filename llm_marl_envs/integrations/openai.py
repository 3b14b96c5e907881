"""Any endpoint that speaks OpenAI's chat protocol: OpenAI itself, vLLM, ``transformers serve``, llama.cpp, Ollama ...

    openai:NAME@URL             openai:tiny@http://127.0.0.1:8000/v1
    openai:NAME@URL#OPTION=...  openai:tiny@http://127.0.0.1:8000/v1#concurrency=1#timeout=30

NAME is the model's name there, URL what stands before ``/chat/completions``. Each option has a ``#`` of its own, which
is never sent:

===============  =========  ==============================================================================
option           default    meaning
===============  =========  ==============================================================================
``concurrency``  8          most requests at a time
``timeout``      300        seconds for one request
``retries``      4          further attempts after a failed connection, a timeout, 408, 409, 429 or 5xx;
                            the client waits between them, longer each time or as long as the server says
``key``                     name of the environment variable with the key (see below)
===============  =========  ==============================================================================

A key comes from the environment alone: from ``OPENAI_API_KEY``, or the variable that ``key`` names. Without one none is
sent, as servers of one's own need none. It is in no setting, log, pickle or message; **it is sent to the URL that you
name**, so give endpoints of others a variable of their own.

``pip install 'llm-marl-envs[openai]'``. As the expert of feedback:
``make(id, feedback="expert", feedback_kwargs={"propose": "openai:NAME@URL"})``. As an agent of your own loop::

    endpoint = Endpoint("openai:tiny@http://127.0.0.1:8000/v1")
    action = endpoint(observation)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError, LlmMarlError
from ..tables import import_module
from .endpoint_spec import KEY, EndpointSpec

_LONGEST_MESSAGE = 300  # characters of what a server says of its failure


class EndpointError(LlmMarlError, RuntimeError):
    """An endpoint cannot be reached, refuses, or answers something that is no answer. Nothing was scored."""


@dataclass(frozen=True)
class Answer:
    """One answer of an endpoint.

    Attributes:
        text: what the model said; "" where it said nothing (a refusal, a filter, thoughts that used up all tokens).
        finish_reason: ``"stop"``, ``"length"`` (cut by ``max_tokens``) or what else the endpoint says.
        prompt_tokens, completion_tokens: as the endpoint reports them; None if it does not.
    """

    text: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None


@dataclass(frozen=True)
class Usage:
    """What an endpoint was used for.

    Attributes:
        answers: how many it gave; failed attempts are not among them.
        prompt_tokens, completion_tokens: of all answers whose tokens it reported.
        unreported: answers whose tokens it did not report.
    """

    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unreported: int = 0

    def __add__(self, answer: Answer) -> Usage:
        told = answer.prompt_tokens is not None and answer.completion_tokens is not None
        return Usage(
            self.answers + 1,
            self.prompt_tokens + (answer.prompt_tokens or 0),
            self.completion_tokens + (answer.completion_tokens or 0),
            self.unreported + (not told),
        )


class Endpoint:
    """Asks one model of one endpoint. Safe for threads; a pickle holds the spec alone.

    Args:
        spec: see the module's docstring.

    Raises:
        ConfigError: a wrong spec, or a key that cannot be sent.
        MissingDependencyError: the package ``openai`` is not installed.
    """

    def __init__(self, spec: str):
        self.spec = EndpointSpec.parse(spec)
        self._given = spec
        self._openai = import_module("openai", install="pip install 'llm-marl-envs[openai]'")
        self._key = _read_key(self.spec)
        self._client = self._openai.OpenAI(
            api_key=self._key or "none",  # the client insists on one; servers without keys ignore it
            base_url=self.spec.url,
            timeout=self._openai.Timeout(self.spec.timeout, connect=min(10.0, self.spec.timeout)),
            max_retries=self.spec.retries,
        )
        self._slots = threading.BoundedSemaphore(self.spec.concurrency)
        self._lock = threading.Lock()
        self._usage = Usage()
        self._limit_name = "max_tokens"

    def __repr__(self) -> str:
        return f"Endpoint({self._given!r})"

    def __reduce__(self) -> tuple[type[Endpoint], tuple[str]]:
        return Endpoint, (self._given,)

    @property
    def usage(self) -> Usage:
        """What it was used for so far, in this process."""
        return self._usage

    def __call__(self, question: str) -> str:
        """The answer to a text, sampled as the endpoint does by itself. Raises EndpointError as :meth:`ask`."""
        return self.ask([{"role": "user", "content": question}]).text

    def ask(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        temperature: float | None = None,
        top_p: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
    ) -> Answer:
        """Ask for one answer, and wait for it; with ``concurrency`` others under way, wait for one of them first.

        What is None is not sent, so that the endpoint's own default holds.

        Args:
            messages: each with ``role`` and ``content``.
            temperature: 0 for greedy answers.
            top_p: nucleus probability.
            max_tokens: most tokens of the answer.
            seed: 0 to 2^31 - 1. The protocol leaves it to the endpoint what that is worth: many ignore it.

        Raises:
            EndpointError: no answer, after the retries. The message names the endpoint and a remedy.
        """
        wanted: dict[str, Any] = {"temperature": temperature, "top_p": top_p, "seed": seed}
        with self._slots:
            answer = self._read(self._request(messages, wanted, max_tokens))
        with self._lock:
            self._usage += answer
        return answer

    def _request(self, messages: Sequence[Mapping[str, object]], wanted: Mapping[str, Any], limit: int | None) -> Any:
        name = self._limit_name
        asked = {key: value for key, value in {**wanted, name: limit}.items() if value is not None}
        try:
            return self._client.chat.completions.create(
                model=self.spec.name, messages=[dict(message) for message in messages], **asked
            )
        except self._openai.BadRequestError as error:
            # OpenAI's newer models know the limit by another name only; older servers know this one only.
            if error.param != "max_tokens" or name != "max_tokens":
                raise self._failure(error) from None
        except (self._openai.OpenAIError, ValueError) as error:  # ValueError: what was sent back is no JSON
            # The cause is left out on purpose: a server may repeat the key in what it says.
            raise self._failure(error) from None
        self._limit_name = "max_completion_tokens"
        return self._request(messages, wanted, limit)

    def _read(self, completion: Any) -> Answer:
        choices = getattr(completion, "choices", None)
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = getattr(choice, "message", None)
        content = getattr(message, "content", None)
        if message is None or not (content is None or isinstance(content, str)):
            said = self._shown(completion if isinstance(completion, str) else repr(completion))
            raise EndpointError(
                f"{self.spec} answered something that is no chat completion: {said} Check the URL, which ends where "
                "/chat/completions follows (usually /v1), and the server."
            )
        usage = getattr(completion, "usage", None)
        # JSON can hold halves of surrogate pairs, which no file or tokenizer takes.
        text = (content or "").encode("utf-8", errors="replace").decode("utf-8")
        return Answer(
            text,
            getattr(choice, "finish_reason", None) or "stop",
            _count(usage, "prompt_tokens"),
            _count(usage, "completion_tokens"),
        )

    def _failure(self, error: Exception) -> EndpointError:
        """The error to raise: who failed, how, and what helps."""
        api, spec = self._openai, self.spec
        status = getattr(error, "status_code", None)
        tried = f" in {spec.retries + 1} attempts" if spec.retries else ""
        if isinstance(error, api.APITimeoutError):
            return EndpointError(
                f"{spec} gave no answer within {spec.timeout:g} s{tried}. Give it longer (#timeout=SECONDS), or ask "
                "for less at a time (#concurrency=1, fewer tokens)."
            )
        if isinstance(error, api.APIConnectionError):
            cause = self._shown(str(error.__cause__ or error))
            return EndpointError(
                f"{spec} cannot be reached{tried}: {cause} Is the server running, and the URL right (host, port, http "
                "or https)?"
            )
        body = getattr(error, "body", None)
        told = body.get("message") if isinstance(body, dict) else None
        said = self._shown(str(told or getattr(error, "message", error)).removeprefix(f"Error code: {status} - "))
        if status in (401, 403):
            what = f"refuses the key that {spec.key} holds" if self._key else "asks for a key, and none is set"
            remedy = f"Put a valid key into the environment variable {spec.key}."
        elif status == 404:
            what = "knows no such model or path"
            remedy = "Check NAME, and that the URL ends where /chat/completions follows (usually /v1)."
        elif status == 429:
            what = f"is asked too much, or its quota is used up{tried}"
            remedy = "Ask for less at a time (#concurrency=1), allow more #retries, or see to the quota."
        elif status is not None and status >= 500:
            what, remedy = f"failed{tried}", "Its log says why."
        elif status is not None:
            what, remedy = "refused the request", "Change the sampling settings or the model that it names."
        else:
            what, remedy = "answered something that is no JSON", "Check the URL, and the server."
        number = f" ({status})" if status is not None else ""
        return EndpointError(f"{spec} {what}{number}: {said} {remedy}")

    def _shown(self, text: str) -> str:
        """What a server said, on one line, short and without the key."""
        text = " ".join(text.split())
        if self._key:
            text = text.replace(self._key, "***")
        text = text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}..."
        return text if text.endswith((".", "!", "?")) else f"{text}."


def _count(usage: Any, name: str) -> int | None:
    """A number of tokens; None where the endpoint tells none, or something that is no number."""
    told = getattr(usage, name, None)
    return told if isinstance(told, int) and told >= 0 else None


def _read_key(spec: EndpointSpec) -> str:
    key = os.environ.get(spec.key, "").strip()
    if not key and spec.key != KEY:
        raise ConfigError(f"The environment variable that #key of {spec} names is not set.")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"The key that {spec.key} holds has characters that cannot be sent in an HTTP header.")
    return key
