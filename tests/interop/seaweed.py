"""A real S3 server, SeaweedFS, with one bucket in a temporary folder."""

import json
import secrets
import urllib.request

from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import S3FileSystem

from checks import Wrong, eventually
from processes import Process, free_ports

BUCKET = "interop"
REGION = "us-east-1"


class Seaweed:
    """Runs until the end of the `with` block; what it stores is thrown away."""

    def __init__(self, folder, binary, name="seaweed"):
        home = folder.below(f"{name}-store")
        self._key, self._secret = secrets.token_hex(8), secrets.token_hex(16)
        config = home / "identities.json"
        config.write_text(json.dumps(self._identities()), encoding="utf-8")
        ports = dict(zip(("master", "volume", "filer", "s3"), free_ports(4), strict=True))
        command = [binary, "server", "-filer", "-s3", f"-dir={home}", f"-s3.config={config}"]
        # Only loopback, and nothing reported to anybody.
        command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"]
        for (part, port), grpc_port in zip(ports.items(), free_ports(4), strict=True):
            command += [f"-{part}.port={port}", f"-{part}.port.grpc={grpc_port}"]
        command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
        command += [f"-{part}.localSocket={home / part}.sock" for part in ("filer", "s3")]
        # Small volumes: by default each takes room for 30 GB.
        command += ["-master.volumeSizeLimitMB=64", "-volume.max=16"]
        self._folder, self._name, self._command, self._n_starts = folder, name, command, 0
        self._endpoint = f"http://127.0.0.1:{ports['s3']}"
        self.start()
        self._files = S3FileSystem(
            access_key=self._key,
            secret_key=self._secret,
            endpoint_override=self._endpoint,
            region=REGION,
            allow_bucket_creation=True,
        )
        self._files.create_dir(BUCKET)

    def start(self):
        """Starts it, or starts it again with what it has stored."""
        self._n_starts += 1
        self._process = Process(self._folder, f"{self._name}-store-{self._n_starts}", self._command)
        self._await_health()

    def stop(self):
        """Ends it in good order; what it has stored is kept."""
        self._process.stop()

    def pause(self):
        """Lets connections hang."""
        self._process.pause()

    def resume(self):
        """Answers again."""
        self._process.resume()

    def environment(self):
        """Where it is and who may use it: for the server and for `deltalake` alike."""
        return {
            "AWS_ACCESS_KEY_ID": self._key,
            "AWS_SECRET_ACCESS_KEY": self._secret,
            "AWS_ENDPOINT_URL": self._endpoint,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
        }

    def file_system(self):
        """Its files for duckdb, whose own S3 client is an extension that would be downloaded."""
        return ArrowFSWrapper(self._files)

    def _identities(self):
        credentials = [{"accessKey": self._key, "secretKey": self._secret}]
        actions = ["Admin", "Read", "Write", "List"]
        return {"identities": [{"name": "whyslow", "credentials": credentials, "actions": actions}]}

    def _await_health(self):
        def probe():
            try:
                with urllib.request.urlopen(f"{self._endpoint}/healthz", timeout=5) as response:
                    return response.status == 200
            except OSError:
                return False

        try:
            eventually("seaweed is not healthy", probe)
        except Wrong as wrong:
            raise Wrong(f"{wrong}: {self._process.last_words()}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Its orderly end takes longer than the checks.
        self._process.kill()
