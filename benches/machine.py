"""The machine that something was measured on, for the scripts below this folder."""

import os
import platform
from pathlib import Path


def processor():
    """Its model."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def memory_gib():
    """All of its memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def described(processors):
    """What something is measured on, with the load that there is already."""
    return {
        "processor": processor(),
        "processors": len(processors),
        "memory_gib": round(memory_gib(), 1),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": os.getloadavg()[0],
    }
