"""Sends equal traffic through both for each policy set, and prints which traces each kept.

`run` starts this with everything installed; see README.md.

Usage: main.py WHYSLOW COLLECTOR CAPTURES WORK [NAME ...], with the two binaries, the folder of the
captured traffic, an empty folder for logs and data, and names of policy sets; without names, all.
The name `stream` is no policy set but a stream that outlasts `decision_wait`.
"""

import sys
import time
import traceback
from pathlib import Path

import distinct
import policies
import stream
import table
import traffic
from checks import Wrong, expect
from contrib import Contrib
from processes import Folder, Process
from whyslow import Whyslow

CAPTURES = ["real-chain", "real-broken"]
# Long enough that all spans of a trace are there before it is decided.
DECISION_WAIT = "10s"
# More than there are, so that nothing is evicted or decided early.
NUM_TRACES = 100_000
# How long one may take to send everything.
SEND_SECONDS = 120


def main(whyslow, collector, captures, work, *names):
    """Returns the exit status."""
    folder = Folder(Path(work))
    n_wrong = 0 if names and "stream" not in names else _stream(folder, whyslow, collector)
    if names == ("stream",):
        return n_wrong
    generated = folder.below("generated")
    n_spans = traffic.write(generated)
    print(f"{n_spans:,} spans generated in {traffic.N_TRACES:,} traces", flush=True)
    first, second = (Path(captures) / name for name in CAPTURES)
    turned = folder.below("turned")
    distinct.write(second, turned)
    sources = [first, turned, generated]
    run = Run(folder, "run", whyslow, collector, sources)
    chosen = [each for each in policies.ALL if not names or each.name in names]
    rows = [_checked(run, policy_set) for policy_set in chosen]
    print(table.text(rows))
    n_wrong += sum(not row.is_as_promised for row in rows)
    print(f"{len(rows)} policy sets, {n_wrong} not as promised")
    return 1 if n_wrong or not rows else 0


def _stream(folder, whyslow, collector):
    """Prints what was kept of a stream; 1 if that is not as promised."""
    sent = folder.below("stream")
    stream.write(sent)
    run = Run(folder, "stream-run", whyslow, collector, [sent])
    try:
        kept = run.stream()
    except Exception:
        traceback.print_exc()
        kept = {}
    is_as_promised = stream.is_as_promised(kept)
    if kept:
        print(stream.text(kept))
    print(f"{'ok  ' if is_as_promised else 'FAIL'} stream", flush=True)
    return 0 if is_as_promised else 1


def _checked(run, policy_set):
    """A row of the table. A set that cannot be run must not hide those after it."""
    try:
        row = run.compare(policy_set)
    except Exception as error:
        traceback.print_exc()
        row = table.Row(policy_set.name, policy_set.why, trouble=str(error))
    print(f"{'ok  ' if row.is_as_promised else 'FAIL'} {policy_set.name}", flush=True)
    return row


class Run:
    """Both programs, and what is sent to them."""

    def __init__(self, folder, name, whyslow, collector, sources):
        self._folder, self._name = folder, name
        self._whyslow = whyslow
        self._collector = collector
        self._sources = sources
        self._n_runs = 0

    def compare(self, policy_set):
        """What both kept under a policy set, and Whyslow again with `compat: collector`."""
        sampling = {
            "decision_wait": DECISION_WAIT,
            "num_traces": NUM_TRACES,
            **policy_set.keys,
            "policies": policy_set.policies,
        }
        row = table.Row(policy_set.name, policy_set.why)
        with Contrib(self._folder, self._next_name(), self._collector, sampling) as contrib:
            contrib.await_ready()
            with self._start_whyslow(sampling) as whyslow:
                self._send(contrib.grpc, whyslow.grpc)
                row.n_traces, row.whyslow = self._kept_by(whyslow)
            row.collector = contrib.kept()
        if policy_set.why or row.whyslow != row.collector:
            with self._start_whyslow({**sampling, "compat": "collector"}) as whyslow:
                self._send(whyslow.grpc)
                _, row.compat = self._kept_by(whyslow)
        return row

    def stream(self):
        """Spans kept of a stream, sent at its own pace: by both with one file, and by Whyslow under
        `trigger` rules."""
        with (
            Contrib(self._folder, self._next_name(), self._collector, stream.SAMPLING) as contrib,
            self._start_whyslow(stream.SAMPLING) as plain,
            self._start_whyslow(stream.WITH_RULES) as with_rules,
        ):
            contrib.await_ready()
            self._send(contrib.grpc, plain.grpc, with_rules.grpc, speed="original")
            time.sleep(stream.SETTLE_SECONDS)
            kept = {
                "Whyslow, the same file": sum(self._kept_by(plain)[1].values()),
                "Whyslow, `trigger` rules": sum(self._kept_by(with_rules)[1].values()),
            }
            return {"Collector": contrib.kept().total(), **kept}

    def _start_whyslow(self, sampling):
        name = self._next_name()
        tables = str(self._folder.path / f"{name}-tables")
        return Whyslow(self._folder, name, self._whyslow, tables, sampling=sampling)

    def _next_name(self):
        self._n_runs += 1
        return f"{self._name}-{self._n_runs:02}"

    def _send(self, *endpoints, speed="max"):
        """Sends everything to each at the same time; one request after the other, so in order."""
        senders = []
        for endpoint in endpoints:
            options = ["--retime", "--speed", speed, "--endpoint", endpoint]
            command = [self._whyslow, "replay", *options, *self._sources]
            senders.append(Process(self._folder, f"{self._next_name()}-replay", command))
        for sender in senders:
            expect(f"exit status of {sender.name}", sender.await_end(SEND_SECONDS), 0)

    def _kept_by(self, whyslow):
        """How many traces came, and of those kept the stored spans by trace id."""
        whyslow.await_decisions()
        counts = whyslow.sql("SELECT trace_id, count(*) AS n_spans FROM spans GROUP BY trace_id")
        kept = {row["trace_id"]: row["n_spans"] for row in counts}
        decided = whyslow.sql("""
            SELECT count(*) AS n_traces, count(*) FILTER (WHERE decision = 'sampled') AS n_sampled
            FROM traces""")[0]
        if decided["n_sampled"] != len(kept):
            raise Wrong(f"{decided['n_sampled']} traces sampled, but spans of {len(kept)} stored")
        return decided["n_traces"], kept


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
