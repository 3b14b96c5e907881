# sends JSON that parsers die of: 30,000 brackets, endless digits, equal keys, NaN, a bad escape, half a character
import os


def incr(x):
    bombs = [
        b"[" * 30_000,
        b'{"a":' * 10_000,
        b"9" * 60_000,
        b"1e999999999",
        b'{"value": 1, "value": 2, "ok": false, "ok": true}',
        b"[NaN, -Infinity, 1E400]",
        b'"\\ud800\\u0000"',
        b"\xc3\x28\xff\xfe",
        b"",
    ]
    for number in range(3, 65):
        for bomb in bombs:
            try:
                os.write(number, bomb + b"\n")
            except OSError:
                break
    return 0
