//! The receiver's section reads as the Collector's, and says what is wrong with it.

use super::*;

fn otlp(yaml: &str) -> std::result::Result<Otlp, String> {
    serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
}

#[test]
fn a_protocol_without_keys_has_its_defaults_and_one_not_named_is_off() {
    let config = otlp("protocols: {grpc: }").unwrap();
    assert_eq!(
        config.protocols,
        Protocols {
            grpc: Some(Grpc::default()),
            http: None
        }
    );
    let config = otlp("protocols: {grpc: {}, http: {endpoint: 0.0.0.0:4318}}").unwrap();
    assert_eq!(config.protocols.http.unwrap().endpoint, "0.0.0.0:4318");
    assert!(otlp("{}").is_err(), "protocols are required");
}

#[test]
fn unknown_keys_are_errors_that_name_them() {
    for (yaml, key) in [
        ("protocols: {grcp: {endpoint: \"127.0.0.1:4317\"}}", "grcp"),
        (
            "protocols: {http: {tls_settings: {cert_file: /etc/x}}}",
            "tls_settings",
        ),
        (
            "protocols: {http: {max_recv_msg_size_mib: 4}}",
            "max_recv_msg_size_mib",
        ),
        (
            "protocols: {grpc: {max_request_body_size: 4}}",
            "max_request_body_size",
        ),
    ] {
        let error = otlp(yaml).unwrap_err();
        assert!(error.contains(key), "{yaml}: {error}");
    }
}

const NO_PROTOCOLS: Protocols = Protocols {
    grpc: None,
    http: None,
};

/// Spoils one value of the defaults.
type Spoil = fn(&mut Config);

const WRONG_VALUES: &[(Spoil, &str)] = &[
    (|c| c.otlp.protocols = NO_PROTOCOLS, "protocols"),
    (|c| grpc(c).max_recv_msg_size_mib = 0, "max_recv_msg"),
    (|c| http(c).max_request_body_size = 0, "max_request"),
    (|c| http(c).logs_url_path = "/v1/traces".into(), "http"),
    (
        |c| c.intake.bytes_in_flight_max = 1,
        "intake::bytes_in_flight_max",
    ),
    (
        |c| c.intake.body_timeout = Duration::ZERO,
        "intake::body_timeout",
    ),
    (
        |c| grpc(c).max_concurrent_streams = 0,
        "max_concurrent_streams",
    ),
    (
        |c| grpc(c).keepalive.server_parameters.timeout = Duration::ZERO,
        "keepalive::server_parameters",
    ),
    (
        |c| http(c).read_header_timeout = Duration::ZERO,
        "read_header_timeout",
    ),
    (|c| c.intake.connections_max = 0, "intake::connections_max"),
];

fn grpc(config: &mut Config) -> &mut Grpc {
    config.otlp.protocols.grpc.as_mut().unwrap()
}

fn http(config: &mut Config) -> &mut Http {
    config.otlp.protocols.http.as_mut().unwrap()
}

#[test]
fn defaults_are_valid_and_wrong_values_name_their_key() {
    assert!(Config::default().validate().is_ok());
    for (change, key) in WRONG_VALUES {
        let mut config = Config::default();
        change(&mut config);
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn limits_of_a_connection_have_the_collectors_names() {
    let config = otlp(
        "protocols:
          grpc:
            max_concurrent_streams: 16
            keepalive: {server_parameters: {max_connection_idle: 11s, max_connection_age: 1h, time: 30s}}
          http: {read_header_timeout: 20s, idle_timeout: 2m}",
    )
    .unwrap();
    let grpc = config.protocols.grpc.unwrap();
    assert_eq!(grpc.max_concurrent_streams, 16);
    let times = grpc.keepalive.server_parameters;
    assert_eq!(times.max_connection_idle, Duration::from_secs(11));
    assert_eq!(times.max_connection_age, Duration::from_secs(3600));
    assert_eq!(times.timeout, ServerParameters::default().timeout);
    let http = config.protocols.http.unwrap();
    assert_eq!(http.read_header_timeout, Duration::from_secs(20));
    assert_eq!(http.idle_timeout, Duration::from_secs(120));
}

#[test]
fn sync_and_its_interval_are_one_policy() {
    for (yaml, expected) in [
        ("{}", SyncPolicy::Interval(Duration::from_secs(1))),
        ("{sync: never}", SyncPolicy::Never),
        ("{sync: always, sync_interval: 5s}", SyncPolicy::Always),
        (
            "{sync: interval, sync_interval: 5s}",
            SyncPolicy::Interval(Duration::from_secs(5)),
        ),
        ("{sync_interval: 0s}", SyncPolicy::Always),
    ] {
        let intake: Intake = serde_saphyr::from_str(yaml).unwrap();
        assert_eq!(intake.sync_policy(), expected, "{yaml}");
    }
    assert!(serde_saphyr::from_str::<Intake>("{sync: sometimes}").is_err());
}

#[test]
fn intake_reads_durations_and_sizes() {
    let intake: Intake =
        serde_saphyr::from_str("{sync_interval: 0s, shutdown: decide, log_bytes_max: 1000}")
            .unwrap();
    assert_eq!(intake.sync_interval, Duration::ZERO);
    assert_eq!(intake.shutdown, Shutdown::Decide);
    assert_eq!(intake.log_bytes_max, 1000);
    assert_eq!(intake.body_timeout, Intake::default().body_timeout);
    assert!(serde_saphyr::from_str::<Intake>("{sync_interval: 1}").is_err());
}
