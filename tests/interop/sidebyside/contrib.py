"""The Collector with its `tail_sampling` processor, and which traces it kept."""

import json
from collections import Counter

from checks import expect
from processes import Process, free_ports

# The receiver's default, 4 MiB, is less than some of the captured requests have.
MESSAGE_MIB = 64


class Contrib:
    """A running Collector: OTLP over gRPC in, decisions, ids of kept traces out."""

    def __init__(self, folder, name, binary, sampling):
        home = folder.below(f"{name}-collector")
        self._ids = home / "trace-ids"
        (port,) = free_ports(1)
        self.grpc = f"127.0.0.1:{port}"
        config = home / "config.yaml"
        config.write_text(json.dumps(self._config(sampling), indent=2), encoding="utf-8")
        command = [binary, "--config", f"file:{config}"]
        self._process = Process(folder, f"{name}-collector", command)

    def await_ready(self):
        self._process.await_line("Everything is ready")

    def kept(self):
        """Ends it, which decides what is undecided; returns spans by trace id."""
        expect("exit status of the Collector", self._process.stop(), 0)
        # A policy that fails is logged at `debug`; a policy set that is not what it seems, louder.
        expect("trouble in its log", self._process.lines(r"\t(warn|error|fatal)\t"), [])
        return Counter(self._ids.read_text(encoding="ascii").split())

    def _config(self, sampling):
        grpc = {"endpoint": self.grpc, "max_recv_msg_size_mib": MESSAGE_MIB}
        pipeline = {
            "receivers": ["otlp"],
            "processors": ["tail_sampling"],
            "exporters": ["trace_ids"],
        }
        return {
            "receivers": {"otlp": {"protocols": {"grpc": grpc}}},
            "processors": {"tail_sampling": sampling},
            "exporters": {"trace_ids": {"path": str(self._ids)}},
            "service": {
                # Its own metrics would need one more port.
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": pipeline},
            },
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
