"""Where a program spends its processor time: samples of its stacks, told apart by the stage of the route that they are in.

Needs `perf` (Linux) and the right to use it; without, nothing is told. The binary needs line tables for its stacks, which a release
build of this workspace has.
"""

import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from contextlib import contextmanager

# Samples a second: enough for shares of a percent in ten seconds, and few enough to leave the program alone.
PER_SECOND = 97
# Of each stack, so that the frames of tasks and threads are reached.
STACK_BYTES = 32 << 10

# The first pattern that a frame of the stack has names the stage.
STAGES = (
    ("kernel: pages that are touched first", r"asm_exc_page_fault|do_user_addr_fault"),
    ("kernel: sockets", r"tcp_|sock_|inet_|__sys_sendto|__sys_recvfrom"),
    ("kernel: files", r"vfs_|ext4_|do_iter|fsync|iomap_|xfs_|btrfs_"),
    ("Parquet and Delta", r"\b(lake|parquet|delta_kernel|object_store)::"),
    ("rows of `spans`", r"\btables::spans::"),
    ("rows of `requests` and `traces`", r"\b(correlate|tables)::|\bwhyslow::(store|measured)::"),
    ("log", r"\bwal::"),
    ("decided traces read back", r"\bgateway::(release|threads::run_release)"),
    ("index, fold, decide", r"\bsampler::|\bgateway::ingest::"),
    ("check and walk of OTLP", r"\botlp::"),
    ("gRPC", r"\b(h2|tonic|hyper|hyper_util|prost)::"),
)
REST = "other"


@contextmanager
def profiled(pid, path):
    """Takes samples of a process; yields a function that ends this and gives the shares by stage, or `None`."""
    perf = shutil.which("perf")
    if not perf:
        yield lambda: None
        return
    command = [perf, "record", "-q", "-F", str(PER_SECOND), "--call-graph", f"dwarf,{STACK_BYTES}"]
    recording = subprocess.Popen(
        [*command, "-p", str(pid), "-o", str(path)], stderr=subprocess.DEVNULL
    )

    def stages():
        # Ended by an interrupt, it writes what it has.
        recording.send_signal(signal.SIGINT)
        recording.wait()
        return shares(perf, path)

    try:
        yield stages
    finally:
        recording.kill()
        recording.wait()


def shares(perf, path):
    """Shares of all samples by stage, the largest first."""
    if not os.path.exists(path):
        return None
    told = subprocess.run(
        [perf, "script", "-i", str(path), "-F", "comm,ip,sym", "--no-inline"],
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
    )
    counted = Counter(stage(stack) for stack in told.stdout.split("\n\n") if stack.strip())
    n_samples = sum(counted.values())
    if n_samples == 0:
        return None
    return {name: count / n_samples for name, count in counted.most_common()}


def stage(stack):
    """The stage that a stack is in."""
    return next((name for name, pattern in STAGES if re.search(pattern, stack)), REST)
