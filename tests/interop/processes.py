"""Processes that a check starts: each has a log file, a bounded life and a certain end.

The id of a running process is a file in the folder `pids`, so that `run` can end what is left if
this program is itself ended.
"""

import os
import re
import signal
import socket
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

from checks import Wrong, eventually


class Folder:
    """The folder of one run, with the logs and the ids of what is running."""

    def __init__(self, path):
        self.path = path
        self.pids = path / "pids"
        self.pids.mkdir(parents=True, exist_ok=True)

    def below(self, name):
        """A new folder for the files of one peer."""
        path = self.path / name
        path.mkdir(parents=True)
        return path


class Process:
    """A running program."""

    def __init__(self, folder, name, command, environment=None):
        self.name = name
        self.log_path = folder.path / f"{name}.log"
        with open(self.log_path, "wb") as log:
            self._child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )
        self._pid_path = folder.pids / str(self._child.pid)
        self._pid_path.touch()

    def log(self):
        """What it has printed so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def lines(self, pattern):
        """Printed lines in which the pattern is found."""
        return [line for line in self.log().splitlines() if re.search(pattern, line)]

    def await_line(self, pattern, seconds=60):
        """The match of the first printed line with this pattern."""

        def probe():
            found = re.search(pattern, self.log())
            if not found and self._child.poll() is not None:
                raise Wrong(f"{self.name} ended with {self._child.returncode}: {self.last_words()}")
            return found

        return eventually(lambda: f"{self.name} printed no /{pattern}/", probe, seconds)

    def memory_bytes(self):
        """Its resident memory."""
        status = Path(f"/proc/{self._child.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024

    def pause(self):
        """Stops it without ending it: it answers nobody."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self):
        """Lets it go on."""
        self._child.send_signal(signal.SIGCONT)

    def await_end(self, seconds):
        """Waits for its end; returns the exit status."""
        try:
            status = self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Wrong(
                f"{self.name} did not end within {seconds} s: {self.last_words()}"
            ) from None
        self._pid_path.unlink(missing_ok=True)
        return status

    def stop(self, seconds=60):
        """Asks it to end, as a supervisor does; returns the exit status."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
        return self.await_end(seconds)

    def kill(self):
        """Ends it at once; harmless if it has ended."""
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        self._pid_path.unlink(missing_ok=True)

    def last_words(self):
        """The end of its log, on one line."""
        return " | ".join(self.log().splitlines()[-3:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


@contextmanager
def on(processors):
    """What is started meanwhile runs on these."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def sampled(probe, seconds=0.5):
    """What `probe` gives so often meanwhile: a list that grows."""
    samples, over = [], threading.Event()

    def watch():
        while not over.wait(seconds):
            samples.append(probe())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield samples
    finally:
        over.set()
        watcher.join()


def free_ports(n_ports):
    """Ports of the loopback interface on which nobody listens at the moment."""
    sockets = [socket.socket() for _ in range(n_ports)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
