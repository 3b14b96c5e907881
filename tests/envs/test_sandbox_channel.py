"""Messages, and the system call filter as the kernel would run it."""

from __future__ import annotations

import os

import pytest

from llm_marl_envs.sandbox.inside import seccomp
from llm_marl_envs.sandbox.inside.channel import NOTHING, Channel, ClosedError, framed, pack, pack_trusted
from llm_marl_envs.sandbox.inside.codec import ProtocolError


def received(data: bytes, trusted: bool = False, max_bytes: int = 100, unread: bool = False):
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
        os.close(writing)
        channel = Channel(reading, max_bytes, trusted)
        while (message := channel.take(unread)) is NOTHING:
            channel.fill()
        return message
    finally:
        os.close(reading)


@pytest.mark.parametrize("message", [None, True, -1, 1.5, float("inf"), '\ud800\0\u00e9"', [[], {}], {"a": {"b": [1]}}])
def test_messages_arrive_as_they_were_sent(message):
    assert received(pack(message)) == message
    assert received(pack_trusted(message), trusted=True) == message


def test_json_is_what_the_library_makes():
    assert pack({"a": [1, 2.0, None], "b": "\u00e9"})[4:] == b'{"a":[1,2.0,null],"b":"\\u00e9"}'


@pytest.mark.parametrize("body", [b"", b"{", b"1 2", b" 1", b"\xc3\xa9", b'"\xe9"', b"[" * 90, pack_trusted([1])[4:]])
def test_what_is_no_json_is_refused(body):
    with pytest.raises(ProtocolError):
        received(framed(body))


def test_a_message_left_unread_may_be_anything():
    assert received(framed(b"\xff{"), unread=True) == b"\xff{"


def test_a_message_that_is_too_long_is_refused_before_it_is_there():
    with pytest.raises(ProtocolError, match="limit"):
        received((101).to_bytes(4, "big"))


def test_the_end_of_a_connection():
    with pytest.raises(ClosedError):
        received(framed(b"1")[:-1])


# --- the filter


def verdict(code, number, argument=0, machine=0):
    """What a filter answers to a system call."""
    place, value = 0, 0
    while True:
        operation, if_true, if_false, operand = code[place]
        place += 1
        if operation == seccomp._RETURN:
            return operand
        if operation == seccomp._LOAD:
            value = {0: number, 4: seccomp._AUDIT_ARCH[machine]}.get(operand, argument)
        else:
            holds = {
                seccomp._EQUAL: value == operand,
                seccomp._GREATER_EQUAL: value >= operand,
                seccomp._ANY_BIT: bool(value & operand),
            }[operation]
            place += if_true if holds else if_false


@pytest.mark.parametrize("machine", [0, 1])
@pytest.mark.parametrize("open_files", [True, False])
@pytest.mark.parametrize("more", [{}, seccomp.CHECKER])
def test_the_filter_allows_the_calls_of_its_tables_and_no_others(machine, open_files, more):
    code = seccomp.assemble(machine, open_files, more)
    tables = {**seccomp.ALWAYS, **more, **(seccomp.READING if open_files else {})}
    allowed = {row[machine] for row in tables.values()} - {None}
    special = {table[machine] for table in (seccomp.OPEN, seccomp.OPENAT, seccomp.IOCTL)} - allowed
    for number in {*range(1_000), 1 << 20} - special:
        expected = seccomp._ALLOW if number in allowed else seccomp._ERRNO | seccomp._EPERM
        if number == seccomp.CLONE3:
            expected = seccomp._ERRNO | seccomp._ENOSYS
        assert verdict(code, number, machine=machine) == expected, number
    reading = verdict(code, seccomp.OPENAT[machine], os.O_RDONLY, machine) == seccomp._ALLOW
    assert reading is open_files
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, os.O_APPEND):
        assert verdict(code, seccomp.OPENAT[machine], flags, machine) == seccomp._ERRNO | seccomp._EPERM


def test_another_architecture_is_killed():
    code = seccomp.assemble(0, True, {})
    assert verdict(code, 0, machine=1) == seccomp._KILL
    assert verdict(code, 0x40000000) == seccomp._KILL
