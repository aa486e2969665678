"""The programs that are measured: Whyslow twice, the Collector twice, Rotel, and a server that only receives.

Each has its own folder, one processor, and the same section `tail_sampling`. What it keeps goes to a counting receiver,
which runs beside the load generator; Whyslow with tables stores it instead.
"""

import json
import os
import re
import socket
import time
from pathlib import Path

import scenarios
import whyslow
from checks import Wrong, eventually, expect
from processes import Process, free_ports

MESSAGE_MIB = 64
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

# Five, of which only the last is ever satisfied by the traffic, and it by chance of the trace id, which is
# equal in all programs: so all keep the same traces.
POLICIES = [
    {"name": "errors", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
    {"name": "slow", "type": "latency", "latency": {"threshold_ms": 5000}},
    {
        "name": "long",
        "type": "numeric_attribute",
        "numeric_attribute": {"key": "gen_ai.usage.prompt_tokens", "min_value": 100_000},
    },
    {
        "name": "tenant",
        "type": "string_attribute",
        "string_attribute": {"key": "tenant", "values": ["canary"]},
    },
]


def sampling(kept_percent, decision_wait_s, **more):
    """The section `tail_sampling`."""
    chance = {"sampling_percentage": kept_percent}
    rest = {"name": "rest", "type": "probabilistic", "probabilistic": chance}
    return {
        "decision_wait": f"{decision_wait_s}s",
        "num_traces": scenarios.NUM_TRACES,
        "policies": [*POLICIES, rest],
        **more,
    }


class Measured(Process):
    """A process whose use of the machine is read from /proc."""

    def _read(self, name):
        return Path(f"/proc/{self._child.pid}/{name}").read_text(encoding="ascii")

    @property
    def pid(self):
        """Of the process."""
        return self._child.pid

    def cpu_s(self):
        """Processor seconds so far, in user and kernel mode."""
        fields = self._read("stat").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def peak_bytes(self):
        """The most resident memory so far."""
        return int(re.search(r"VmHWM:\s+(\d+) kB", self._read("status")).group(1)) * 1024

    def written_bytes(self):
        """Bytes that it caused to be written to a disk."""
        return int(re.search(r"^write_bytes: (\d+)", self._read("io"), re.MULTILINE).group(1))


class Receiver(Measured):
    """The server that only receives; with `count` the backend of the others."""

    def __init__(self, folder, name, binary, *arguments):
        super().__init__(folder, name, [binary, "127.0.0.1:0", *arguments])
        self.grpc = self.await_line(r"listening on (\S+)").group(1)

    def came(self):
        """Ends it; what it has received."""
        expect("exit status of the receiver", self.stop(), 0)
        return json.loads(self.log().splitlines()[-1])


class Rotel(Measured):
    """Rotel, which has no `tail_sampling`: it decodes what it receives, batches it and drops it."""

    def __init__(self, folder, name, binary):
        grpc, http = free_ports(2)
        self.grpc = f"127.0.0.1:{grpc}"
        endpoints = ["--otlp-grpc-endpoint", self.grpc, "--otlp-http-endpoint", f"127.0.0.1:{http}"]
        limit = ["--otlp-grpc-max-recv-msg-size-mib", str(MESSAGE_MIB)]
        super().__init__(folder, name, [binary, "start", "--exporter", "blackhole", *endpoints, *limit])
        eventually(lambda: f"{name} does not listen", lambda: is_open(grpc), 60)


class Collector(Measured):
    """The Collector with `tail_sampling`."""

    def __init__(self, folder, name, binary, section, backend):
        (port,) = free_ports(1)
        self.grpc = f"127.0.0.1:{port}"
        config = folder.below(name) / "config.yaml"
        exporter = {"endpoint": backend, "tls": {"insecure": True}, "compression": "none"}
        grpc = {"endpoint": self.grpc, "max_recv_msg_size_mib": MESSAGE_MIB}
        pipeline = {
            "receivers": ["otlp"],
            "processors": ["tail_sampling"],
            "exporters": ["otlp_grpc"],
        }
        text = {
            "receivers": {"otlp": {"protocols": {"grpc": grpc}}},
            "processors": {"tail_sampling": section},
            "exporters": {"otlp_grpc": exporter},
            "service": {
                # Its own metrics would need one more port.
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": pipeline},
            },
        }
        config.write_text(json.dumps(text, indent=2), encoding="utf-8")
        super().__init__(folder, f"{name}-log", [binary, "--config", f"file:{config}"])
        self.await_line("Everything is ready")


class Whyslow(Measured):
    """Whyslow with its log; with tables, or without them and with a backend."""

    def __init__(self, folder, name, binary, section, backend=None, *, intake=None, lake=None):
        home = folder.below(name)
        self._log = home / "log"
        tables = home / "tables"
        config = home / "pipeline.yaml"
        protocols = {"grpc": {"endpoint": "127.0.0.1:0", "max_recv_msg_size_mib": MESSAGE_MIB}}
        exporters = {
            "lake": {"path": str(tables), **(lake or {})},
            "otlp": {"endpoint": backend, "tls": {"insecure": True}, "compression": "none"},
        }
        chosen = "otlp" if backend else "lake"
        text = {
            "receivers": {"otlp": {"protocols": protocols}},
            "processors": {"tail_sampling": section},
            "exporters": {chosen: exporters[chosen]},
            "extensions": {
                "health_check": {"endpoint": "127.0.0.1:0"},
                "write_ahead_log": {"directory": str(self._log)},
                "intake": intake or {},
            },
            "service": {
                "extensions": ["health_check", "write_ahead_log", "intake"],
                "pipelines": {
                    "traces": {
                        "receivers": ["otlp"],
                        "processors": ["tail_sampling"],
                        "exporters": [chosen],
                    }
                },
            },
        }
        config.write_text(json.dumps(text, indent=2), encoding="utf-8")
        super().__init__(folder, f"{name}-log", [binary, "serve", "-c", config])
        ready = self.await_line(r"\bready otlp_grpc=.*").group()
        address = dict(re.findall(r'(\w+)="([^"]*)"', ready))
        self.grpc, self._health = address["otlp_grpc"], address["health_check"]

    def metrics(self):
        """`/metrics` as a dict from name and labels to value."""
        return whyslow.metrics(self._health)

    def await_end_of_work(self, seconds):
        """Until everything is decided and committed or sent."""
        whyslow.await_decisions(self.metrics, seconds)

    def heap_of_sampler(self):
        """What undecided traces take, as it reports it."""
        return self.metrics()["sampler_heap_bytes"]

    def kept_spans(self):
        """Spans of sampled traces."""
        return int(self.metrics()['sampler_spans_total{state="sampled"}'])


def is_open(port):
    """Whether someone listens on this port of the loopback interface."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def await_quiet(process, seconds):
    """Until a program that cannot be asked has stopped working: next to no processor time for a second."""
    give_up = time.monotonic() + seconds
    before = process.cpu_s()
    while time.monotonic() < give_up:
        time.sleep(1)
        now = process.cpu_s()
        if now - before < 0.03:
            return
        before = now
    raise Wrong(f"{process.name} still works after {seconds} s")
