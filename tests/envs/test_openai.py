"""Endpoints of OpenAI's protocol: how they are named, what is sent, what can go wrong, and that no key leaks."""

from __future__ import annotations

import json
import logging
import pickle
import socket
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
from endpoints import completion, failure, serving
from hypothesis import given
from hypothesis import strategies as st
from toys import play, toy

from llm_marl_envs.errors import ConfigError, LlmMarlError, MissingDependencyError
from llm_marl_envs.feedback.expert import Expert
from llm_marl_envs.integrations.endpoint_spec import EndpointSpec
from llm_marl_envs.integrations.openai import Endpoint, EndpointError, Usage

MARKER = "sk-marker-9f3b2c71"
ASKED = [{"role": "user", "content": "Say A."}]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No key of whoever runs the tests, and no proxy of theirs between the test and its server."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def library():
    return pytest.importorskip("openai")


# -- names --------------------------------------------------------------------------------------------------------------


def test_a_spec_names_a_model_and_a_url():
    spec = EndpointSpec.parse("openai:tiny@http://127.0.0.1:8000/v1/")
    assert spec == EndpointSpec("tiny", "http://127.0.0.1:8000/v1", 8, 300.0, 4, "OPENAI_API_KEY")
    assert str(spec) == "openai:tiny@http://127.0.0.1:8000/v1"
    assert EndpointSpec.parse("openai:owner/model:free@rev@https://h/v1").name == "owner/model:free@rev"
    told = EndpointSpec.parse("openai:m@https://h:1/v1#concurrency=2#timeout=0.5#retries=0#key=OTHER_KEY")
    assert told == EndpointSpec("m", "https://h:1/v1", 2, 0.5, 0, "OTHER_KEY")


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="@"), min_size=1),
    st.from_regex(r"[a-z]{1,9}(\.[a-z]{1,9})?(:[1-9][0-9]{0,3})?(/[a-z0-9]{1,5}){0,3}", fullmatch=True),
    st.integers(1, 10**5),
)
def test_every_spec_is_read_back(name, place, concurrency):
    spec = EndpointSpec.parse(f"openai:{name}@https://{place}#concurrency={concurrency}")
    assert (spec.name, spec.url, spec.concurrency) == (name, f"https://{place}", concurrency)
    assert EndpointSpec.parse(str(spec)) == EndpointSpec(name, f"https://{place}")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("openai:", "no NAME@URL"),
        ("openai:gpt-4o", "no NAME@URL"),
        ("gpt-4o@http://h/v1", "no NAME@URL|does not begin"),
        ("openai:m@127.0.0.1:8000/v1", "does not begin with http:// or https://"),
        ("openai:m@ftp://h/v1", "does not begin with http:// or https://"),
        ("openai:@http://h/v1", "no NAME@URL"),
        ("openai:m@http://", "no host or a wrong port"),
        ("openai:m@http:///v1", "no host or a wrong port"),
        ("openai:m@http://h:99999/v1", "no host or a wrong port"),
        ("openai:m@http://h:x/v1", "no host or a wrong port"),
        ("openai:m@http://h/v1#concurency=2", "Did you mean 'concurrency'"),
        ("openai:m@http://h/v1#concurrency=0", "at least 1, not '0'"),
        ("openai:m@http://h/v1#concurrency=two", "at least 1, not 'two'"),
        ("openai:m@http://h/v1#timeout=0", "above 0, not '0'"),
        ("openai:m@http://h/v1#timeout=nan", "above 0"),
        ("openai:m@http://h/v1#retries=-1", "at least 0, not '-1'"),
    ],
)
def test_wrong_specs_say_what_is_wrong(spec, words):
    with pytest.raises(ConfigError, match=words):
        EndpointSpec.parse(spec)


@pytest.mark.parametrize(
    "spec",
    [
        f"openai:m@http://user:{MARKER}@h/v1",
        f"openai:m@http://{MARKER}@h/v1",
        f"openai:m@user:{MARKER}@h/v1",
        f"openai:m@http://h/v1?api_key={MARKER}",
        f"openai:m@http://h/v1#key={MARKER}",
    ],
)
def test_a_secret_in_a_spec_is_refused_and_not_repeated(spec):
    with pytest.raises(ConfigError) as caught:
        EndpointSpec.parse(spec)
    assert MARKER not in str(caught.value)


# -- asking -------------------------------------------------------------------------------------------------------------


def test_an_answer_and_what_was_sent_for_it(library):
    with serving(lambda body, number: (200, completion("A", "length", (7, 2)))) as server:
        endpoint = Endpoint(server.spec())
        answer = endpoint.ask(ASKED, temperature=0.5, top_p=0.9, max_tokens=3, seed=11)
        assert (answer.text, answer.finish_reason) == ("A", "length")
        assert (answer.prompt_tokens, answer.completion_tokens) == (7, 2)
        endpoint.ask(ASKED)
        assert endpoint("Say A.") == "A"
        sent = {"model": "m", "messages": ASKED}
        assert server.bodies == [sent | {"temperature": 0.5, "top_p": 0.9, "max_tokens": 3, "seed": 11}, sent, sent]
        assert endpoint.usage == Usage(answers=3, prompt_tokens=21, completion_tokens=6)


def test_the_key_comes_from_the_environment_alone(library, monkeypatch):
    with serving(lambda body, number: (200, completion("A"))) as server:
        Endpoint(server.spec())("?")
        monkeypatch.setenv("OPENAI_API_KEY", f" {MARKER}\n")  # as a file ends that it was read from
        Endpoint(server.spec())("?")
        monkeypatch.setenv("OTHER_KEY", "other")
        Endpoint(server.spec("#key=OTHER_KEY"))("?")
        sent = [headers["authorization"] for headers in server.headers]
    assert sent == ["Bearer none", f"Bearer {MARKER}", "Bearer other"]
    monkeypatch.delenv("OTHER_KEY")
    with pytest.raises(ConfigError, match="is not set"):
        Endpoint("openai:m@http://h/v1#key=OTHER_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", f"{MARKER}\x07é")
    with pytest.raises(ConfigError, match="cannot be sent") as caught:
        Endpoint("openai:m@http://h/v1")
    assert MARKER not in str(caught.value)


def test_the_name_of_the_limit_that_newer_models_know(library):
    def reply(body, number):
        if "max_tokens" in body:
            return 400, failure(
                "Use 'max_completion_tokens' instead.", param="max_tokens", code="unsupported_parameter"
            )
        return 200, completion("A")

    with serving(reply) as server:
        endpoint = Endpoint(server.spec())
        for _ in range(2):
            assert endpoint.ask(ASKED, max_tokens=3).text == "A"
        assert [{"max_tokens", "max_completion_tokens"} & set(body) for body in server.bodies] == [
            {"max_tokens"},
            {"max_completion_tokens"},
            {"max_completion_tokens"},
        ]
        assert all(3 in body.values() for body in server.bodies)
    with serving(lambda body, number: (400, failure("Too few.", param="max_tokens"))) as server:
        with pytest.raises(EndpointError, match="Too few"):  # by either name: no endless exchange
            Endpoint(server.spec()).ask(ASKED, max_tokens=3)
        assert len(server.bodies) == 2


def test_no_more_requests_at_a_time_than_wished(library):
    both, lock, active, most = threading.Barrier(2, timeout=60), threading.Lock(), [0], [0]

    def reply(body, number):
        with lock:
            active[0] += 1
            most[0] = max(most[0], active[0])
        both.wait()  # two must be under way for any to be answered
        with lock:
            active[0] -= 1
        return 200, completion("A")

    with serving(reply) as server:
        endpoint = Endpoint(server.spec("#concurrency=2"))
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(endpoint, ["?"] * 8)) == ["A"] * 8
    assert most[0] == 2
    assert endpoint.usage.answers == 8


@pytest.mark.parametrize(
    ("content", "text"), [(None, ""), ("", ""), ("a\ud800b", "a?b"), ("a\x00\u2028\U0001f600", "a\x00\u2028\U0001f600")]
)
def test_whatever_a_model_says_is_data(library, content, text):
    with serving(lambda body, number: (200, completion(content, "content_filter", None))) as server:
        endpoint = Endpoint(server.spec())
        answer = endpoint.ask(ASKED)
    assert (answer.text, answer.finish_reason, answer.completion_tokens) == (text, "content_filter", None)
    assert endpoint.usage == Usage(answers=1, unreported=1)


@pytest.mark.parametrize("told", [None, "many", -3, 2.5, [], {"a": 1}])
def test_token_counts_that_are_none_count_as_unreported(library, told):
    said = completion("A") | {"usage": {"prompt_tokens": 3, "completion_tokens": told}}
    with serving(lambda body, number: (200, said)) as server:
        endpoint = Endpoint(server.spec())
        assert endpoint.ask(ASKED).completion_tokens is None
    assert endpoint.usage == Usage(answers=1, prompt_tokens=3, unreported=1)


# -- what goes wrong ----------------------------------------------------------------------------------------------------


def test_a_server_that_is_down():
    pytest.importorskip("openai")
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port
        taken.bind(("127.0.0.1", 0))
        spec = f"openai:m@http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(EndpointError, match=r"cannot be reached: .*Is the server running") as caught:
            Endpoint(f"{spec}#retries=0")("?")
    assert spec in str(caught.value)


@pytest.mark.parametrize(
    ("status", "retried", "words"),
    [
        (400, False, "refused the request (400): Because. Change the sampling settings"),
        (401, False, "asks for a key, and none is set (401): Because. Put a valid key into the environment variable"),
        (403, False, "asks for a key, and none is set (403)"),
        (404, False, "knows no such model or path (404): Because. Check NAME, and that the URL ends"),
        (422, False, "refused the request (422)"),
        (429, True, "is asked too much, or its quota is used up in 3 attempts (429)"),
        (500, True, "failed in 3 attempts (500): Because. Its log says why."),
        (503, True, "failed in 3 attempts (503)"),
    ],
)
def test_errors_name_the_endpoint_and_a_remedy(library, status, retried, words):
    with serving(lambda body, number: (status, failure("Because."))) as server:
        with pytest.raises(EndpointError) as caught:
            Endpoint(server.spec("#retries=2"))("?")
        assert len(server.bodies) == (3 if retried else 1)
        assert str(caught.value).startswith(f"{server.spec()} ") and words in str(caught.value)
    assert isinstance(caught.value, LlmMarlError)


def test_a_failure_that_passes_is_waited_for(library):
    with serving(lambda body, number: (500, failure("busy")) if number < 2 else (200, completion("A"))) as server:
        endpoint = Endpoint(server.spec("#retries=2"))
        assert endpoint("?") == "A"
        assert len(server.bodies) == 3 and endpoint.usage.answers == 1


def test_a_server_that_does_not_answer_in_time(library):
    over = threading.Event()
    with serving(lambda body, number: (200, completion("A")) if over.wait(60) else (500, None)) as server:
        with pytest.raises(EndpointError, match=r"gave no answer within 0\.2 s in 2 attempts. .*#timeout=SECONDS"):
            Endpoint(server.spec("#timeout=0.2#retries=1"))("?")
        assert len(server.bodies) == 2
        over.set()


@pytest.mark.parametrize(
    "said",
    [
        b"<html>Welcome</html>",
        b'"words"',
        b"{broken",
        b"",
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [{"index": 0}]},
        {"choices": [{"index": 0, "message": None}]},
        completion([{"type": "text", "text": "A"}]),
    ],
)
def test_what_is_no_chat_completion(library, said):
    with (
        serving(lambda body, number: (200, said)) as server,
        pytest.raises(EndpointError, match=r"answered something that is no (chat completion|JSON).*Check the URL"),
    ):
        Endpoint(server.spec("#retries=0"))("?")


def test_a_key_is_in_no_message_log_or_pickle(library, monkeypatch, caplog):
    """Even where a server repeats it."""
    monkeypatch.setenv("OPENAI_API_KEY", MARKER)
    caplog.set_level(logging.DEBUG)
    for said in (failure(f"Incorrect API key provided: {MARKER}."), f"<b>{MARKER}</b>".encode()):
        for status in (200, 400, 401, 404, 429, 500):
            with serving(lambda body, number, answer=(status, said): answer) as server:
                endpoint = Endpoint(server.spec("#retries=1"))
                with pytest.raises(EndpointError) as caught:
                    endpoint("?")
                assert server.headers[0]["authorization"] == f"Bearer {MARKER}"
            told = [*traceback.format_exception(caught.value), repr(endpoint), repr(endpoint.usage)]
            assert MARKER not in "".join(told)
            assert caught.value.__cause__ is None
            assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert MARKER not in caplog.text and "127.0.0.1" in caplog.text
    assert MARKER.encode() not in pickle.dumps(endpoint)
    assert repr(pickle.loads(pickle.dumps(endpoint))) == repr(endpoint)


# -- as the expert of feedback ------------------------------------------------------------------------------------------


def test_an_endpoint_is_the_expert(library, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", MARKER)
    with serving(lambda body, number: (200, completion(f"edit {number}"))) as server:
        env = toy(num_turns=2, feedback="expert", feedback_kwargs={"propose": server.spec("#concurrency=1")})
        told = play(env, [{"left": "L", "right": "R"}])[1][0]
        assert told["left"].startswith("An expert proposes this edit of your response:\nedit 0\n")
        assert "edit 1" in told["right"]
        asked = server.bodies[0]["messages"][0]
        assert asked["role"] == "user" and "Propose an edited version of the response of 'left'" in asked["content"]
        assert "hidden-" not in json.dumps(server.bodies)  # a row's secret field
        copy = pickle.dumps(env)
        assert MARKER.encode() not in copy and pickle.loads(copy) is not None
    with pytest.raises(ConfigError, match="no NAME@URL"):
        Expert("openai:gpt-4o")


def test_without_the_package_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'llm-marl-envs\[openai\]'"):
        toy(feedback="expert", feedback_kwargs={"propose": "openai:m@http://h/v1"})
    assert EndpointSpec.parse("openai:m@http://h/v1").name == "m"  # a name can be read without it
