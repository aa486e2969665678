"""Attacks on the disk of the log: no room on it, and syncs that fail."""

import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from checks import Wrong, eventually
from ledger import Load, check_answers, check_tables
from service import await_acknowledgement, check_balance, end_load, n_acknowledged, service

DISK_BYTES = 24 << 20
FULL_SECONDS = 15
SEGMENT_BYTES = 1 << 20


@contextmanager
def small_disk(folder):
    """A file system of a few megabytes in memory, mounted while it is used."""
    path = folder.below("small-disk")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise Wrong(f"needs the right to mount a small file system: {mounted.stderr}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=False)


def attack_full(checks, folder, binary):
    """Something else fills the log's disk while exports come in, and is removed again; then again, with a kill."""
    tables = str(folder.below("disk-full-tables"))
    with small_disk(folder) as disk:
        log = {"directory": str(disk / "log"), "segment_bytes": SEGMENT_BYTES}
        ballast = disk / "ballast"
        with service(folder, "disk-full", binary, tables, write_ahead_log=log) as server:
            load = Load(folder, "disk-full-load", server.http, 300, rate=60, senders=4)
            await_acknowledgement(load, 20)
            _fill_until_refused(load, ballast, FULL_SECONDS)
            checks.run("disk-full: /readyz while it lasts", _readiness, server)
            n_before = n_acknowledged(load)
            n_bytes = ballast.stat().st_size
            ballast.unlink()
            begin = time.monotonic()
            await_acknowledgement(load, n_before)
            resumed = f"{time.monotonic() - begin:.1f} s after {n_bytes} bytes were freed"
            checks.run("disk-full: acknowledged again", lambda: resumed)

            _fill_until_refused(load, ballast, 1)
            server.kill()
            _fill(ballast)
            checks.run("disk-full: start with no room at all", _start_full, server, ballast)
            await_acknowledgement(load, n_acknowledged(load))
            exports = end_load(load)
            checks.run("disk-full: what senders got", check_answers, exports, (200, 429, 0))
            checks.run("disk-full: conservation", check_balance, server)
            checks.run("disk-full: tables", check_tables, server, exports)


def _fill_until_refused(load, ballast, seconds):
    """Takes all room until an export is refused, and for so long after that."""
    n_before = len(load.exports())

    def refused():
        # Segments that are committed go on giving room.
        _fill(ballast)
        return any(export["status"] == 429 for export in load.exports()[n_before:])

    eventually("nobody is refused on a full disk", refused)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _fill(ballast)
        time.sleep(0.2)


def _fill(path):
    """Grows a file until there is no room."""
    with open(path, "ab", buffering=0) as file:
        for size in (1 << 20, 1 << 16, 1 << 12):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def _readiness(server):
    status, text = server.readiness()
    return f"{status} {text.strip()}"


def _start_full(server, ballast):
    try:
        server.start()
        said = "starts and serves"
    except Wrong as wrong:
        said = f"refuses with: {str(wrong)[-400:]}"
        ballast.unlink()
        server.start()
        return said + "; starts when there is room"
    ballast.unlink()
    return said


def attack_sync(checks, folder, binary):
    """Syncs of the log fail with EIO, for ever."""
    home = folder.below("sync-error-shim")
    shim, trigger = home / "fail_sync.so", home / "trigger"
    source = Path(__file__).with_name("fail_sync.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
    environment = {"LD_PRELOAD": str(shim), "FAIL_SYNC": str(trigger)}
    for interval in ("1s", "0s"):
        name = f"sync-error-{interval}"
        log = {"segment_bytes": SEGMENT_BYTES}
        intake = {"sync_interval": interval}
        tables = str(folder.below(f"{name}-tables"))
        with service(
            folder, name, binary, tables, environment, write_ahead_log=log, intake=intake
        ) as server:
            load = Load(folder, f"{name}-load", server.http, 300, rate=60, senders=4)
            await_acknowledgement(load, 60)
            trigger.touch()
            eventually("the server does not notice", lambda: server.readiness()[0] == 503, 60)
            time.sleep(2)
            checks.run(f"{name}: /readyz", _readiness, server)
            n_refused_from = len(load.exports())
            time.sleep(2)
            later = load.exports()[n_refused_from:]
            checks.run(f"{name}: senders afterwards", check_answers, later, (503,))
            # It must not come back by itself: what the disk holds is not known.
            trigger.unlink()
            time.sleep(2)
            checks.run(f"{name}: /readyz when syncs work again", _readiness, server)
            server.kill()
            server.start()
            await_acknowledgement(load, n_acknowledged(load))
            exports = end_load(load)
            checks.run(f"{name}: what senders got", check_answers, exports, (200, 503, 0))
            checks.run(f"{name}: conservation after a restart", check_balance, server)
            checks.run(f"{name}: tables", check_tables, server, exports)
