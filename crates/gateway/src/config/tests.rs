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
