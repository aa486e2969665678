"""The attacks in their order. `run` starts this with everything installed; see README.md.

Usage: main.py WHYSLOW WORK [ATTACK ...], with the server's binary, an empty folder for logs and data, and the
attacks to make, by default all.
"""

import sys
from pathlib import Path

import disk
import overload
import store
from checks import Checks
from processes import Folder

ATTACKS = {
    "disk-full": disk.attack_full,
    "sync-error": disk.attack_sync,
    "store-stopped": store.attack_stopped,
    "store-hangs": store.attack_hanging,
    "store-503": store.attack_refusing,
    "overload-store": overload.attack_slow_store,
    "overload-cpu": overload.attack_cpu,
}


def main(whyslow, work, *attacks):
    """Returns the exit status."""
    folder = Folder(Path(work))
    checks = Checks(folder.path / "failures.txt")
    for name in attacks or ATTACKS:
        checks.group(name, ATTACKS[name], checks, folder, whyslow)
    print(f"{checks.n_passed} passed, {checks.n_failed} failed")
    return 1 if checks.n_failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
