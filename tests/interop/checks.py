"""Runs checks one after the other and prints one line for each."""

import time
import traceback


class Wrong(Exception):
    """What was observed is not what was expected; the text says both."""


def expect(what, observed, expected):
    """Refuses anything but the expected value."""
    if observed != expected:
        raise Wrong(f"{what}: expected {shorten(expected)}, observed {shorten(observed)}")


def eventually(what, probe, seconds=60):
    """Asks `probe` until it answers something, and gives up with `what` after this time."""
    give_up = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > give_up:
            raise Wrong(f"{what() if callable(what) else what}, after {seconds} s")
        time.sleep(0.1)


def shorten(value, characters_max=300):
    """A value for a line of output."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= characters_max else f"{text[:characters_max]} ..."


class Checks:
    """Prints `ok   <what>: <numbers>` or `FAIL <what>: <why>`, and counts."""

    def __init__(self, traces_path):
        self.n_passed = 0
        self.n_failed = 0
        self._traces_path = traces_path

    def run(self, what, check, *arguments):
        """Runs a check, which returns the numbers that it saw."""
        try:
            numbers = check(*arguments)
        except Exception as error:  # A failed check must not hide those after it.
            self._fail(what, error)
        else:
            self.n_passed += 1
            print(f"ok   {what}: {numbers}", flush=True)

    def group(self, what, checks, *arguments):
        """Runs a function that runs checks; a line is printed only if it cannot go on."""
        try:
            checks(*arguments)
        except Exception as error:  # As above.
            self._fail(what, error)

    def _fail(self, what, error):
        self.n_failed += 1
        why = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
        print(f"FAIL {what}: {' '.join(why.split())}", flush=True)
        with open(self._traces_path, "a", encoding="utf-8") as traces:
            traces.write(f"== {what}\n{traceback.format_exc()}\n")
