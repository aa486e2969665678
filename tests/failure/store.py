"""Attacks on the object store: a real S3 server is stopped, hangs, or refuses half of all puts."""

import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from checks import eventually, expect
from ledger import Load, accepted, answers, check_answers, check_tables
from processes import Process
from seaweed import BUCKET, Seaweed
from service import await_acknowledgement, check_balance, end_load, service

STOPPED_SECONDS = 60
HANGING_SECONDS = 30
REFUSING_SECONDS = 45
RATE = 40

# Reached within the minute at this rate, so that the outage becomes backpressure and not memory.
BACKLOG_SPANS_MAX = 30_000
COMMIT_BYTES = 4 << 20
LIMITS = {
    "intake": {"release_backlog_spans_max": BACKLOG_SPANS_MAX},
    "lake": {"commit_bytes": COMMIT_BYTES},
}


def weed(folder, name):
    """The S3 server, in a folder of its own."""
    return Seaweed(folder, Path(sys.executable).parent / "weed", name)


@contextmanager
def proxy(folder, name, store, **plan):
    """A proxy before the store, and the function that changes its plan and reads its counts."""
    control = folder.path / f"{name}-proxy.json"
    control.write_text(json.dumps(plan), encoding="ascii")
    port = store.environment()["AWS_ENDPOINT_URL"].rsplit(":", 1)[1]
    command = [sys.executable, Path(__file__).with_name("proxy.py"), port, control]
    with Process(folder, f"{name}-proxy", command) as process:
        port = process.await_line(r"proxy listens on (\d+)").group(1)
        environment = {**store.environment(), "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}

        def change(**plan):
            fresh = control.with_suffix(".new")
            fresh.write_text(json.dumps(plan), encoding="ascii")
            fresh.rename(control)
            counts = control.with_suffix(".counts")
            return json.loads(counts.read_text(encoding="ascii")) if counts.exists() else {}

        yield environment, change


def attack_stopped(checks, folder, binary):
    """The store is stopped for a minute and started again with what it had."""

    def attack(store):
        store.stop()
        time.sleep(STOPPED_SECONDS)
        store.start()

    _outage(checks, folder, binary, "store-stopped", attack)


def attack_hanging(checks, folder, binary):
    """The store takes connections and answers nothing."""

    def attack(store):
        store.pause()
        time.sleep(HANGING_SECONDS)
        store.resume()

    _outage(checks, folder, binary, "store-hangs", attack)


def _outage(checks, folder, binary, name, attack):
    tables = f"s3://{BUCKET}/{name}"
    with weed(folder, name) as store:
        with service(folder, name, binary, tables, store.environment(), **LIMITS) as server:
            load = Load(folder, f"{name}-load", server.http, 600, rate=RATE, senders=4)
            await_acknowledgement(load, 3 * RATE)
            server.await_rows("spans", "service_name = 'nobody'", 0)
            memory_before = server.memory_bytes()
            before = len(load.exports())
            attack(store)
            memory_after = server.memory_bytes()
            during = load.exports()[before:]
            numbers = answers(during)
            checks.run(f"{name}: what senders got meanwhile", lambda: numbers)
            grown = f"{(memory_after - memory_before) >> 20} MiB more than before"
            checks.run(f"{name}: memory at its end", lambda: grown)
            begin = time.monotonic()
            n_seen = len(load.exports())

            def resumed():
                later = load.exports()[n_seen:]
                return len(accepted(later)) >= 2 * RATE

            eventually("exports are not acknowledged again", resumed, 180)
            took = f"{time.monotonic() - begin:.1f} s until {2 * RATE} more exports were acknowledged"
            checks.run(f"{name}: service resumes by itself", lambda: took)
            exports = end_load(load)
            _check_end(checks, name, server, exports)


def attack_refusing(checks, folder, binary):
    """Half of all puts are answered 503, half of those after they were made."""
    name, tables = "store-503", f"s3://{BUCKET}/store-503"
    with weed(folder, name) as store, proxy(folder, name, store) as (environment, change):
        with service(folder, name, binary, tables, environment, **LIMITS) as server:
            change(refused_share=0.5)
            load = Load(folder, f"{name}-load", server.http, REFUSING_SECONDS, rate=RATE, senders=4)
            exports = load.finish()
            metrics = server.metrics()
            counts = change(refused_share=0.5)
            numbers = f"{counts}, {metrics['lake_commits_total']:.0f} commits"
            checks.run(f"{name}: the store", _check_refused, counts, numbers)
            # Still refusing: it must get through all the same.
            _check_end(checks, name, server, exports)


def _check_refused(counts, numbers):
    expect("some puts were refused after they were made", counts["refused_after"] > 0, True)
    return numbers


def _check_end(checks, name, server, exports):
    checks.run(f"{name}: what senders got", check_answers, exports, (200, 429))
    checks.run(f"{name}: conservation", check_balance, server)
    checks.run(f"{name}: tables", check_tables, server, exports)
