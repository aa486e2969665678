"""A real Collector between telemetrygen and the server, once per way of exporting."""

import json

import telemetrygen
from checks import expect
from processes import Process, free_ports

# Exporter, protocol and its settings. Compression is gzip unless said otherwise.
EXPORTERS = {
    "otlp-grpc-gzip": ("otlp_grpc", "grpc", {}),
    "otlp-grpc-zstd": ("otlp_grpc", "grpc", {"compression": "zstd"}),
    "otlp-http-proto": ("otlp_http", "http", {"encoding": "proto"}),
    "otlp-http-json": ("otlp_http", "http", {"encoding": "json"}),
}

# "Exporting failed. Will retry", "Dropping data", "Partial success response" and their like are
# warnings and errors; a healthy run has none.
TROUBLE = r"\t(warn|error|fatal)\t|Exporting failed|Dropping data"


def check(folder, binary, generator, server, sent, exporter):
    """The Collector takes all three signals over gRPC and hands them on to the server."""
    name = f"collector-{exporter}"
    kind, protocol, settings = EXPORTERS[exporter]
    (port,) = free_ports(1)
    config = folder.below(name) / "config.yaml"
    pipelines = _config(kind, protocol, settings, server, port)
    config.write_text(json.dumps(pipelines, indent=2), encoding="utf-8")
    with Process(folder, name, [binary, "--config", f"file:{config}"]) as process:
        process.await_line("Everything is ready")
        for signal in ("traces", "metrics", "logs"):
            generator.send(f"through-{exporter}", signal, "grpc", f"127.0.0.1:{port}")
        # It sends what it still holds before it ends.
        expect("exit status of the Collector", process.stop(), 0)
        expect("trouble in the Collector's log", process.lines(TROUBLE), [])
    return telemetrygen.arrived(server, sent, f"through-{exporter}")


def _config(kind, protocol, settings, server, port):
    if protocol == "grpc":
        target = {"endpoint": server.grpc, "tls": {"insecure": True}}
    else:
        target = {"endpoint": f"http://{server.http}"}
    pipeline = {"receivers": ["otlp"], "processors": ["batch"], "exporters": [kind]}
    return {
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": f"127.0.0.1:{port}"}}}},
        "processors": {"batch": {"timeout": "200ms"}},
        "exporters": {kind: {**target, **settings}},
        "service": {
            # Its own metrics would need one more port.
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {signal: pipeline for signal in ("traces", "metrics", "logs")},
        },
    }
