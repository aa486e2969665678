"""Runs every step, once or twice, and writes what was measured.

`run` starts this with everything built; see README.md.

Usage: main.py WHYSLOW COLLECTOR ROTEL TOOLS WORK [--quick] [--runs N] [--only SCENARIO [--peer PROGRAM] [--again N]]
       [--intake BENCH] [--out FOLDER]
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

import bars
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
SMALL_BACKLOG = {"intake": {"release_backlog_spans_max": scenarios.BACKLOG_ROWS}}
# In place of a scenario: the intake without a network.
INTAKE = "intake"
# The same: stacks of our two at the maximum.
PROFILE = "profile"
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
    parser.add_argument("--only", action="append", help="this scenario; may be repeated")
    parser.add_argument("--peer", action="append", help="with --only: this program; may be repeated")
    parser.add_argument("--again", type=int, help="with --only: in place of these steps in the N-th run of RESULTS.md")
    parser.add_argument("--intake", type=Path, help="the bench of the intake without a network")
    parser.add_argument("--out", type=Path, help="folder of RESULTS.md")
    options = parser.parse_args()
    first = scenarios.quick() if options.quick else scenarios.full()
    later = first if options.quick else scenarios.again()
    n_runs = options.runs or (1 if options.quick else 2)
    processors = sorted(os.sched_getaffinity(0))
    expect("processors are at least two", len(processors) >= 2, True)
    if options.again and not options.only:
        parser.error("--again needs --only")
    out = options.out or (
        Path(tempfile.mkdtemp(prefix="whyslow-bench-"))
        if options.quick or (options.only and not options.again)
        else Path(__file__).parent.parent
    )
    measured = results.read(out) if options.again else begun(options, processors)
    if options.again == len(measured["runs"]) + 1:
        measured["runs"].append([])
    n_failed = 0
    for run_idx in [options.again - 1] if options.again else range(n_runs):
        bench = Bench(options, Folder(options.work / f"run-{run_idx + 1}"), processors)
        if not options.again:
            measured["runs"].append([])
        run = measured["runs"][run_idx]
        bench.know(run)
        if options.intake and (not options.only or INTAKE in options.only):
            rate = intake(options.intake, processors[:1])
            measured["intake_spans_per_s"][run_idx : run_idx + 1] = [rate]
            results.write(out, measured)
        for step in later if run_idx else first:
            if not is_wanted(step, options):
                continue
            row = bench.measure(step)
            n_failed += "trouble" in row
            put(run, row)
            results.write(out, measured)
            print(results.line(row), flush=True)
        if PROFILE in options.only if options.only else run_idx == 0:
            measured["profile"] = bench.profile()
            results.write(out, measured)
    print(f"{out / 'RESULTS.md'}; {n_failed} steps failed")
    return 1 if n_failed else 0


def is_wanted(step, options):
    """Whether this step is to be measured."""
    if options.peer and step.peer not in options.peer:
        return False
    if not options.only or step.scenario in options.only:
        return True
    # Rates are multiples of it.
    return not options.again and step.scenario == "maximum"


def begun(options, processors):
    """Results before any step."""
    return {
        "machine": described(processors),
        "is_quick": options.quick,
        "intake_spans_per_s": [],
        "runs": [],
    }


def put(run, row):
    """In the place of the row of the same step, or behind all others."""
    step = ("scenario", "peer")
    for idx, before in enumerate(run):
        if all(before[key] == row[key] for key in step):
            run[idx] = row
            return
    run.append(row)


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

    def know(self, rows):
        """What steps have reached that were measured before."""
        for row in rows:
            # A step that is only profiled has no numbers.
            if "load" in row and "trouble" not in row:
                self._reached[row["scenario"], row["peer"]] = bars.rate(row)
                if row["scenario"] == "maximum":
                    self._reached[scenarios.CAPACITY, row["peer"]] = bars.per_cpu_s(row)

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
        self.know([row])
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
            limits = SMALL_BACKLOG if step.is_backlog_small else {}
            return Whyslow(self._folder, f"{name}-whyslow", options.whyslow, section, target, **limits)
        if step.peer == scenarios.SHARDED:
            section = {**section, "num_shards": 4}
        return Collector(
            self._folder, f"{name}-collector", options.collector, section, backend.grpc
        )

    def _loaded(self, step, name, peer):
        """Sends the load, waits for the end of all work that it makes, and reads what that took."""
        # Connections, caches and the allocator are warm after a second.
        heap_before = peer.heap_of_sampler() if isinstance(peer, Whyslow) else None
        warm = self._send(step, peer, seconds=1.0, rate=20_000, seed=1)
        if not step.is_held:
            self._await_end(step, peer)
        if step.scenario == PROFILE:
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
                    # Before any load it has its places for decisions, which do not grow with it.
                    row["sampler_heap_bytes"] = peer.heap_of_sampler() - heap_before
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
            factor, scenario, peer = step.rate
            if (scenario, peer) not in self._reached:
                raise Wrong(f"what {peer} reaches in `{scenario}` is not known")
            return factor * self._reached[scenario, peer]
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
