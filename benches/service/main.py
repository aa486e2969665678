"""Runs every step, once or twice, and writes what was measured.

`run` starts this with everything built; see README.md.

Usage: main.py WHYSLOW COLLECTOR ROTEL TOOLS WORK [--quick] [--runs N] [--only SCENARIO] [--intake BENCH]
       [--out FOLDER]
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import results
import scenarios
import stacks
from checks import Wrong, expect
from machine import described
from peers import Collector, Receiver, Rotel, Whyslow, await_quiet, sampling
from processes import Folder, on, sampled

CONNECTIONS = 4
IN_FLIGHT = 4
# Until what came last is decided, and stored or sent.
DRAIN_SECONDS_MAX = 240
# Of load while stacks are sampled.
PROFILE_SECONDS = 6
# They send and store nothing.
RECEIVE_ONLY = (scenarios.CEILING, scenarios.ROTEL)


def main():
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="run")
    for name in ("whyslow", "collector", "rotel", "tools", "work"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--only")
    parser.add_argument("--intake", type=Path, help="the bench of the intake without a network")
    parser.add_argument("--out", type=Path, help="folder of RESULTS.md")
    options = parser.parse_args()
    steps = scenarios.quick() if options.quick else scenarios.full()
    n_runs = options.runs or (1 if options.quick else 2)
    processors = sorted(os.sched_getaffinity(0))
    expect("processors are at least two", len(processors) >= 2, True)
    out = options.out or (
        Path(tempfile.mkdtemp(prefix="whyslow-bench-"))
        if options.quick or options.only
        else Path(__file__).parent.parent
    )
    measured = {"machine": described(processors), "is_quick": options.quick, "runs": []}
    if options.intake:
        measured["intake_spans_per_s"] = intake(options.intake, processors[:1])
    n_failed = 0
    for run_idx in range(n_runs):
        bench = Bench(options, Folder(options.work / f"run-{run_idx + 1}"), processors)
        measured["runs"].append([])
        for step in steps:
            if options.only and step.scenario not in (options.only, "maximum"):
                continue
            row = bench.measure(step)
            n_failed += "trouble" in row
            measured["runs"][-1].append(row)
            results.write(out, measured)
            print(results.line(row), flush=True)
        if not options.only:
            measured.setdefault("profiles", []).append(bench.profile())
            results.write(out, measured)
    print(f"{out / 'RESULTS.md'}; {n_failed} steps failed")
    return 1 if n_failed else 0


def intake(binary, processors):
    """Spans per second of append, index, fold and decide on one processor: the median of its rounds."""
    with on(processors):
        output = subprocess.run([binary, "--bench"], capture_output=True, text=True, check=True).stdout
    rounds = re.findall(r"^append, index, fold, decide: (\d+) spans/s", output, re.MULTILINE)
    return statistics.median(int(rate) for rate in rounds)


class Bench:
    """The programs, and what each step has reached."""

    def __init__(self, options, folder, processors):
        self._options, self._folder = options, folder
        # The service has the first one, everything else the others.
        self._service, self._others = processors[:1], processors[1:]
        self._reached = {}
        self._n_steps = 0

    def measure(self, step):
        """A row of results. A step that fails must not hide those after it."""
        self._n_steps += 1
        row = {
            "scenario": step.scenario,
            "peer": step.peer,
            "spans_per_trace": step.shape.spans_per_trace,
            "prompt_bytes": step.shape.prompt_bytes,
            "kept_percent": step.kept_percent,
            "decision_wait_s": step.decision_wait_s,
        }
        try:
            row.update(self._measured(step))
        except (Wrong, OSError, KeyError, ValueError) as error:
            row["trouble"] = str(error)
        return row

    def profile(self):
        """Shares of processor time by stage at the maximum, for each of our two; a run of its own, because samples cost time."""
        told = {}
        for peer in (scenarios.TABLES, scenarios.GATEWAY):
            row = self.measure(scenarios.Step("profile", peer, PROFILE_SECONDS))
            print(f"prof {peer}: {row.get('stages', row.get('trouble', 'no perf'))}", flush=True)
            told[peer] = row.get("stages")
        return told

    def _measured(self, step):
        name = f"step-{self._n_steps:02}"
        section = sampling(step.kept_percent, step.decision_wait_s)
        with ExitStack() as stack:
            backend = None
            with on(self._others):
                if step.peer not in (*RECEIVE_ONLY, scenarios.TABLES):
                    receiver = Receiver(
                        self._folder, f"{name}-backend", self._options.tools / "receiver", "count"
                    )
                    backend = stack.enter_context(receiver)
            with on(self._service):
                peer = stack.enter_context(self._start(step, name, section, backend))
            row = self._loaded(step, name, peer)
            if backend:
                came = backend.came()
                row["kept_spans"], row["kept_trace_ids"] = came["spans"], came["trace_ids"]
            return row

    def _start(self, step, name, section, backend):
        options = self._options
        if step.peer == scenarios.CEILING:
            return Receiver(self._folder, f"{name}-receiver", options.tools / "receiver")
        if step.peer == scenarios.ROTEL:
            return Rotel(self._folder, f"{name}-rotel", options.rotel)
        if step.peer in (scenarios.TABLES, scenarios.GATEWAY):
            target = backend.grpc if backend else None
            return Whyslow(self._folder, f"{name}-whyslow", options.whyslow, section, target)
        if step.peer == scenarios.SHARDED:
            section = {**section, "num_shards": 4}
        return Collector(
            self._folder, f"{name}-collector", options.collector, section, backend.grpc
        )

    def _loaded(self, step, name, peer):
        """Sends the load, waits for the end of all work that it makes, and reads what that took."""
        # Connections, caches and the allocator are warm after a second.
        warm = self._send(step, peer, seconds=1.0, rate=20_000, seed=1)
        if not step.is_held:
            self._await_end(step, peer)
        if step.scenario == "profile":
            stacks_path = self._folder.path / f"{name}.perf"
            with stacks.profiled(peer.pid, stacks_path) as stages:
                self._send(step, peer, step.seconds, None, seed=2)
                self._await_end(step, peer)
                return {"stages": stages()}
        cpu_before, written_before = peer.cpu_s(), peer.written_bytes()
        with memory(peer) as resident:
            before = resident[0][1]
            load = self._send(step, peer, step.seconds, self._rate(step), seed=2)
            row = {"load": load}
            if step.is_held:
                row["held_spans"] = warm["accepted_spans"] + load["accepted_spans"]
                row["resident_bytes_before"] = before
                row["resident_bytes_held"] = peer.memory_bytes()
                if isinstance(peer, Whyslow):
                    row["sampler_heap_bytes"] = peer.heap_of_sampler()
                row["cpu_s"] = peer.cpu_s() - cpu_before
                row["resident"] = list(resident)
                row["peak_bytes"] = peer.peak_bytes()
                return row
            self._await_end(step, peer)
        row["resident"] = list(resident)
        row["cpu_s"] = peer.cpu_s() - cpu_before
        row["peak_bytes"] = peer.peak_bytes()
        row["written_bytes"] = peer.written_bytes() - written_before
        if step.peer == scenarios.TABLES:
            row["kept_spans"] = peer.kept_spans()
        spans_per_s = load["accepted_spans"] / load["seconds"]
        if step.scenario == "maximum":
            self._reached[step.peer] = spans_per_s
        return row

    def _await_end(self, step, peer):
        if step.peer in RECEIVE_ONLY:
            return
        if isinstance(peer, Whyslow):
            peer.await_end_of_work(DRAIN_SECONDS_MAX)
        else:
            time.sleep(step.decision_wait_s)
            await_quiet(peer, DRAIN_SECONDS_MAX)

    def _rate(self, step):
        if isinstance(step.rate, tuple):
            factor, peer = step.rate
            if peer not in self._reached:
                raise Wrong(f"the maximum of {peer} is not known")
            return factor * self._reached[peer]
        return step.rate

    def _send(self, step, peer, seconds, rate, seed):
        plan = {
            "endpoint": peer.grpc,
            "seconds": seconds,
            "rate": rate,
            "traces": step.shape.traces,
            "spans_per_trace": step.shape.spans_per_trace,
            "prompt_bytes": step.shape.prompt_bytes,
            "connections": CONNECTIONS,
            # More than are ever answered, where the load does not wait for answers.
            "in_flight": IN_FLIGHT if rate is None else 16 * IN_FLIGHT,
            "seed": seed,
        }
        with on(self._others):
            sent = subprocess.run(
                [self._options.tools / "load", json.dumps(plan)],
                stdout=subprocess.PIPE,
                text=True,
                check=False,
                timeout=seconds + 120,
            )
        expect("exit status of the load generator", sent.returncode, 0)
        return json.loads(sent.stdout)


@contextmanager
def memory(peer):
    """Seconds since the beginning and resident bytes, twice a second."""
    begin = time.monotonic()

    def sample():
        return round(time.monotonic() - begin, 2), peer.memory_bytes()

    first = sample()
    with sampled(sample) as samples:
        samples.append(first)
        yield samples


if __name__ == "__main__":
    sys.exit(main())
