"""The server under attack: small limits, so that they are reached within seconds."""

from contextlib import contextmanager

from checks import eventually
from processes import free_ports
from whyslow import Whyslow, balance, span_states

# Both are the smallest that the configuration takes together: the largest message twice.
MESSAGE_MIB = 4
BYTES_IN_FLIGHT_MAX = 2 * MESSAGE_MIB << 20


@contextmanager
def service(folder, name, binary, tables, environment=None, **settings):
    """A server with these settings: `intake`, `lake`, `write_ahead_log`, `tail_sampling`."""

    def change(pipeline):
        protocols = pipeline["receivers"]["otlp"]["protocols"]
        protocols["grpc"] = {**protocols["grpc"], "max_recv_msg_size_mib": MESSAGE_MIB}
        # A port that stays the same when it is started again.
        (port,) = free_ports(1)
        protocols["http"] = {
            "endpoint": f"127.0.0.1:{port}",
            "max_request_body_size": MESSAGE_MIB << 20,
        }
        intake = {"bytes_in_flight_max": BYTES_IN_FLIGHT_MAX, **settings.get("intake", {})}
        pipeline["extensions"]["intake"] = intake
        pipeline["service"]["extensions"].append("intake")
        pipeline["extensions"]["write_ahead_log"].update(settings.get("write_ahead_log", {}))
        pipeline["exporters"]["lake"].update(settings.get("lake", {}))
        pipeline["processors"]["tail_sampling"].update(settings.get("tail_sampling", {}))

    with Whyslow(folder, name, binary, tables, environment, change=change) as server:
        yield server


def check_balance(server):
    """Conservation on `/metrics`, once everything is decided and committed."""
    server.await_decisions()
    metrics = server.metrics()
    totals = ", ".join(f"{n} {unit}" for unit, n in balance(metrics).items())
    became = ", ".join(f"{n} {state}" for state, n in span_states(metrics).items() if n)
    return f"received + recovered = decided + late + duplicate + pending: {totals}; spans: {became}"


def await_acknowledgement(load, n_before, seconds=60):
    """Waits until the load generator is acknowledged something new; returns how many exports were."""

    def probe():
        n_now = sum(export["status"] == 200 for export in load.exports())
        return n_now if n_now > n_before else None

    return eventually("no export is acknowledged again", probe, seconds)


def n_acknowledged(load):
    """Exports that were acknowledged so far."""
    return sum(export["status"] == 200 for export in load.exports())


def end_load(load):
    """Ends a load generator early; gives what it noted."""
    load.stop()
    return load.exports()


