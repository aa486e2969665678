//! Requests of two sides, column by column: a few numbers and codes for each, so that a million fit into memory.

use std::collections::HashMap;

/// One of the two sides of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// What it is compared with.
    Before,
    /// What is asked about.
    After,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::Before, Self::After];
}

/// A measured time; each is compared with itself only, so that positions are never mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Latency {
    /// Arrival at the engine to completion.
    E2e,
    /// Time to first token at the engine.
    EngineTtft,
    /// The same in the application.
    AppTtft,
    /// The same in the gateway.
    GatewayTtft,
    /// The same in the client.
    ClientTtft,
    /// The first attempt's start to the first token at the engine.
    OperationTtft,
    /// Waiting to be scheduled.
    Queue,
    /// Scheduled to first token.
    Prefill,
    /// First to last token.
    Decode,
    /// Time per output token after the first.
    Tpot,
}

impl Latency {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::E2e,
        Self::EngineTtft,
        Self::AppTtft,
        Self::GatewayTtft,
        Self::ClientTtft,
        Self::OperationTtft,
        Self::Queue,
        Self::Prefill,
        Self::Decode,
        Self::Tpot,
    ];

    /// Does who waits for the answer feel it? The others are parts of these.
    #[must_use]
    pub const fn is_felt(self) -> bool {
        !matches!(self, Self::Queue | Self::Prefill | Self::Decode)
    }

    /// Its column in `requests`.
    #[must_use]
    pub const fn column(self) -> &'static str {
        match self {
            Self::E2e => "e2e_s",
            Self::EngineTtft => "engine_ttft_s",
            Self::AppTtft => "app_ttft_s",
            Self::GatewayTtft => "gateway_ttft_s",
            Self::ClientTtft => "client_ttft_s",
            Self::OperationTtft => "operation_ttft_s",
            Self::Queue => "queue_s",
            Self::Prefill => "prefill_s",
            Self::Decode => "decode_s",
            Self::Tpot => "tpot_s",
        }
    }
}

/// What is not an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Failure {
    /// It failed.
    Error,
    /// It was given up.
    Cancelled,
    /// It generated nothing without saying that it failed.
    NoOutput,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Error, Self::Cancelled, Self::NoOutput];

    /// As stored in `outcome`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::NoOutput => "no_output",
        }
    }
}

/// What is stored of `outcome`, in a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Ok,
    Failed(Failure),
    Unknown,
}

/// Distinct values of an attribute that are told apart; more are not of low cardinality, whatever they are.
const VALUES_MAX: usize = 65_536;

/// No value.
pub(super) const NULL: u32 = u32::MAX;

/// An attribute of all requests.
#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) codes: Vec<u32>,
    pub(super) values: Vec<String>,
    known: HashMap<String, u32>,
    /// Requests whose value found no place among [`VALUES_MAX`].
    pub(super) n_beyond: usize,
}

impl Attribute {
    pub(super) fn value(&self, code: u32) -> Option<&str> {
        self.values.get(code as usize).map(String::as_str)
    }

    fn push(&mut self, value: Option<&str>) {
        let code = match value {
            None => NULL,
            Some(value) => match self.known.get(value) {
                Some(code) => *code,
                None if self.values.len() >= VALUES_MAX => {
                    self.n_beyond += 1;
                    NULL
                }
                None => {
                    let code = self.values.len() as u32;
                    self.known.insert(value.to_owned(), code);
                    self.values.push(value.to_owned());
                    code
                }
            },
        };
        self.codes.push(code);
    }
}

/// One request as it is handed in.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    /// When it began, nanoseconds since 1970.
    pub start_unix_nano: i64,
    /// As stored in `outcome`.
    pub outcome: Option<&'a str>,
    /// In the order of [`Latency::ALL`]; what is missing, negative or not finite counts as absent.
    pub latencies: [Option<f64>; Latency::ALL.len()],
    /// In the order of [`Samples::new`].
    pub attributes: &'a [Option<&'a str>],
}

/// All requests of a comparison.
#[derive(Debug)]
pub struct Samples {
    pub(super) sides: Vec<Side>,
    pub(super) starts: Vec<i64>,
    pub(super) ended: Vec<Ended>,
    /// NaN where absent.
    latencies: Vec<Vec<f64>>,
    pub(super) attributes: Vec<Attribute>,
    /// Values that were there and could not be: negative or not finite.
    pub(super) n_impossible: usize,
}

impl Samples {
    /// No requests yet; these are the names of their attributes.
    #[must_use]
    pub fn new<S: AsRef<str>>(attributes: &[S]) -> Self {
        let attribute = |name: &S| Attribute {
            name: name.as_ref().to_owned(),
            codes: Vec::new(),
            values: Vec::new(),
            known: HashMap::new(),
            n_beyond: 0,
        };
        Self {
            sides: Vec::new(),
            starts: Vec::new(),
            ended: Vec::new(),
            latencies: vec![Vec::new(); Latency::ALL.len()],
            attributes: attributes.iter().map(attribute).collect(),
            n_impossible: 0,
        }
    }

    /// Adds a request. An attribute that it does not bring is absent.
    pub fn push(&mut self, side: Side, sample: &Sample<'_>) {
        self.sides.push(side);
        self.starts.push(sample.start_unix_nano);
        self.ended.push(match sample.outcome {
            Some("ok") => Ended::Ok,
            Some(outcome) => Failure::ALL
                .into_iter()
                .find(|failure| failure.as_str() == outcome)
                .map_or(Ended::Unknown, Ended::Failed),
            None => Ended::Unknown,
        });
        for (column, value) in self.latencies.iter_mut().zip(sample.latencies) {
            let possible = value.filter(|value| value.is_finite() && *value >= 0.0);
            self.n_impossible += usize::from(value.is_some() && possible.is_none());
            // A negative zero would sort before zero.
            column.push(possible.map_or(f64::NAN, |value| value + 0.0));
        }
        for (idx, attribute) in self.attributes.iter_mut().enumerate() {
            attribute.push(sample.attributes.get(idx).copied().flatten());
        }
    }

    /// Number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sides.len()
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sides.is_empty()
    }

    /// The latency of a request that answered; those of others are no latencies of answers.
    pub(super) fn latency(&self, latency: Latency, row: usize) -> Option<f64> {
        let value = self.latencies[latency as usize][row];
        (self.ended[row] == Ended::Ok && !value.is_nan()).then_some(value)
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes
            .iter()
            .find(|attribute| attribute.name == name)
    }
}
