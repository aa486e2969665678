//! Extension `slo`: what users of the models are promised, in latency and errors.
//!
//! ```yaml
//! extensions:
//!   slo:
//!     objectives:
//!       - name: chat
//!         model: "qwen*"
//!         input_band: [lt_128, lt_512, lt_2k]
//!         ttft: {threshold: 500ms, target: 0.99}
//!         errors: {target: 0.999}
//! ```
//!
//! # Decided
//!
//! *An extension, not a processor*: objectives change no span and stand in no pipeline; they are counted where the rows of
//! `requests` come about, for all traffic.
//!
//! *A request counts in every objective that it matches*, not in the first: promises to all and to some are both promises.
//!
//! *A request without a model, or without a token count, is matched by no objective that asks for one.* Nothing is guessed.
//!
//! It must not know how requests are counted.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tables::requests::Request;

/// Objectives at most, and their measures a counter each: they are series on `/metrics`.
const OBJECTIVES_MAX: usize = 100;

/// Settings of the extension.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Slo {
    /// Time over which a target holds, in whole days; rules on burn rates scale with it. Default `30d`.
    #[serde(deserialize_with = "window")]
    pub(crate) window: Duration,
    /// Pairs of model and input band that have histograms of their own on `/metrics`; the rest is `other`. Default 200.
    #[serde(deserialize_with = "label_sets_max")]
    pub(crate) label_sets_max: usize,
    /// The promises. Default: none; the histograms are there without.
    pub(crate) objectives: Vec<Objective>,
}

impl Default for Slo {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(30 * 86_400),
            label_sets_max: 200,
            objectives: Vec::new(),
        }
    }
}

/// Promises about one kind of traffic.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Keys")]
pub(crate) struct Objective {
    /// Its name, which is the label `objective` on `/metrics`.
    pub(crate) name: String,
    /// Which models; `None`: all, also requests without one.
    pub(crate) model: Option<Pattern>,
    /// Which bands of prompt tokens; empty: all.
    pub(crate) input_band: Vec<Band>,
    /// Which bands of generated tokens; empty: all.
    pub(crate) output_band: Vec<Band>,
    /// What is promised; at least one.
    pub(crate) promises: Vec<Promise>,
}

/// The share of requests that is promised to be good, and what good means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Promise {
    pub(crate) measure: Measure,
    /// The longest time that is good; `None` for errors.
    pub(crate) threshold: Option<Duration>,
    /// More than 0 and less than 1.
    pub(crate) target: f64,
}

/// What is promised about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Ttft(Position),
    Tpot,
    E2e,
    Errors,
}

impl Measure {
    /// As the label `measure` on `/metrics`, and as the key in the file.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ttft(_) => "ttft",
            Self::Tpot => "tpot",
            Self::E2e => "e2e",
            Self::Errors => "errors",
        }
    }
}

/// Where the clock of a time to first token was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Position {
    #[default]
    Engine,
    App,
    Gateway,
    Client,
}

impl Position {
    pub(crate) const ALL: [Self; 4] = [Self::Engine, Self::App, Self::Gateway, Self::Client];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::App => "app",
            Self::Gateway => "gateway",
            Self::Client => "client",
        }
    }
}

/// A band of token counts, as in `requests.input_band`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Band {
    #[serde(rename = "lt_128")]
    Lt128,
    #[serde(rename = "lt_512")]
    Lt512,
    #[serde(rename = "lt_2k")]
    Lt2k,
    #[serde(rename = "lt_8k")]
    Lt8k,
    #[serde(rename = "lt_32k")]
    Lt32k,
    #[serde(rename = "ge_32k")]
    Ge32k,
}

impl Band {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Lt128 => "lt_128",
            Self::Lt512 => "lt_512",
            Self::Lt2k => "lt_2k",
            Self::Lt8k => "lt_8k",
            Self::Lt32k => "lt_32k",
            Self::Ge32k => "ge_32k",
        }
    }
}

/// A text in which `*` stands for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(String);

impl Pattern {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = text.strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        // The earliest place of each part leaves most room for those behind it.
        for part in parts {
            match rest.split_once(part) {
                Some((_, behind)) => rest = behind,
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

impl Objective {
    /// Is a request of the traffic that this is about?
    pub(crate) fn matches(&self, request: &Request) -> bool {
        let is_model = match &self.model {
            Some(pattern) => request.model.as_deref().is_some_and(|m| pattern.matches(m)),
            None => true,
        };
        let is_in = |bands: &[Band], n_tokens: Option<i64>| {
            let band = n_tokens.map(tables::requests::band);
            bands.is_empty() || bands.iter().any(|known| Some(known.as_str()) == band)
        };
        is_model
            && is_in(&self.input_band, request.input_tokens)
            && is_in(&self.output_band, request.output_tokens)
    }

    /// For people, in one line.
    pub(crate) fn describe(&self) -> String {
        let mut of = Vec::new();
        if let Some(model) = &self.model {
            of.push(format!("model {}", model.as_str()));
        }
        let words = |bands: &[Band]| {
            let words: Vec<&str> = bands.iter().map(|band| band.as_str()).collect();
            words.join(" or ")
        };
        for (key, bands) in [("input", &self.input_band), ("output", &self.output_band)] {
            if !bands.is_empty() {
                of.push(format!("{key} {}", words(bands)));
            }
        }
        let of = if of.is_empty() {
            "all requests".to_owned()
        } else {
            of.join(", ")
        };
        let promises: Vec<String> = self.promises.iter().map(Promise::to_string).collect();
        format!("`{}` ({of}): {}", self.name, promises.join("; "))
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = percent(self.target);
        let Some(threshold) = self.threshold else {
            return write!(f, "{percent} % without error");
        };
        write!(f, "{percent} % with {}", self.measure.as_str())?;
        if let Measure::Ttft(position) = self.measure {
            write!(f, " (at the {})", position.as_str())?;
        }
        write!(f, " of at most {threshold:?}")
    }
}

/// A share in percent, without the noise of binary fractions.
pub(crate) fn percent(share: f64) -> f64 {
    (share * 100.0 * 1e6).round() / 1e6
}

impl Slo {
    pub(super) fn validate(&self, is_storing: bool) -> Result<(), String> {
        if !is_storing {
            return Err(
                "counts the requests that the exporter `lake` stores, and no pipeline has that; name `lake` in \
                 `exporters`, or take `slo` out of `service::extensions`"
                    .to_owned(),
            );
        }
        if self.objectives.len() > OBJECTIVES_MAX {
            return Err(format!(
                "has {} `objectives`; at most {OBJECTIVES_MAX}, because each is a series of `/metrics`",
                self.objectives.len()
            ));
        }
        let mut names = BTreeSet::new();
        for (idx, objective) in self.objectives.iter().enumerate() {
            if !names.insert(&objective.name) {
                return Err(format!(
                    "`objectives[{idx}]` is called `{}` as one before it; give each a name of its own",
                    objective.name
                ));
            }
        }
        Ok(())
    }
}

/// An objective as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(deserialize_with = "name")]
    name: String,
    #[serde(default, deserialize_with = "pattern")]
    model: Option<Pattern>,
    #[serde(default, deserialize_with = "bands")]
    input_band: Vec<Band>,
    #[serde(default, deserialize_with = "bands")]
    output_band: Vec<Band>,
    ttft: Option<TtftKeys>,
    tpot: Option<LatencyKeys>,
    e2e: Option<LatencyKeys>,
    errors: Option<ErrorKeys>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TtftKeys {
    #[serde(deserialize_with = "threshold")]
    threshold: Duration,
    #[serde(deserialize_with = "target")]
    target: f64,
    #[serde(default)]
    position: Position,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LatencyKeys {
    #[serde(deserialize_with = "threshold")]
    threshold: Duration,
    #[serde(deserialize_with = "target")]
    target: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorKeys {
    #[serde(deserialize_with = "target")]
    target: f64,
}

impl TryFrom<Keys> for Objective {
    type Error = &'static str;

    fn try_from(keys: Keys) -> Result<Self, Self::Error> {
        let mut promises = Vec::new();
        let mut promise = |measure, threshold, target| {
            promises.push(Promise {
                measure,
                threshold,
                target,
            });
        };
        if let Some(keys) = keys.ttft {
            promise(
                Measure::Ttft(keys.position),
                Some(keys.threshold),
                keys.target,
            );
        }
        if let Some(keys) = keys.tpot {
            promise(Measure::Tpot, Some(keys.threshold), keys.target);
        }
        if let Some(keys) = keys.e2e {
            promise(Measure::E2e, Some(keys.threshold), keys.target);
        }
        if let Some(keys) = keys.errors {
            promise(Measure::Errors, None, keys.target);
        }
        if promises.is_empty() {
            return Err(
                "promises nothing; add at least one of `ttft`, `tpot`, `e2e`, `errors`, for example \
                 `ttft: {threshold: 500ms, target: 0.99}`",
            );
        }
        Ok(Self {
            name: keys.name,
            model: keys.model,
            input_band: keys.input_band,
            output_band: keys.output_band,
            promises,
        })
    }
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
        return Err(de::Error::custom(format_args!(
            "`{name}`: write 1 to 64 of a-z, 0-9, `-`, `_` and `.`; it becomes a label of `/metrics`"
        )));
    }
    Ok(name)
}

fn pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Pattern>, D::Error> {
    let pattern = String::deserialize(deserializer)?;
    if pattern.is_empty() {
        return Err(de::Error::custom(
            "is empty; write a model, `qwen*` for all that begin so, or leave the key out for every model",
        ));
    }
    Ok(Some(Pattern(pattern)))
}

fn threshold<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let threshold = sampler::duration::deserialize(deserializer)?;
    if threshold.is_zero() {
        return Err(de::Error::custom(
            "must be more than `0s`; write the longest time that is still good, such as `500ms`",
        ));
    }
    Ok(threshold)
}

fn target<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let target = f64::deserialize(deserializer)?;
    if target > 0.0 && target < 1.0 {
        return Ok(target);
    }
    let remedy = if target > 1.0 && target < 100.0 {
        format!("; {target} % is {}", target / 100.0)
    } else if target == 1.0 {
        "; 1 leaves no error budget, so that the first bad request breaks it for good: write for example 0.999".to_owned()
    } else {
        "; write for example 0.99".to_owned()
    };
    Err(de::Error::custom(format_args!(
        "`{target}`: must be a share of the requests, more than 0 and less than 1{remedy}"
    )))
}

fn label_sets_max<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        n @ 1..=10_000 => Ok(n),
        n => Err(de::Error::custom(format_args!(
            "`{n}`: must be from 1 to 10000; each is up to seven histograms of `/metrics`"
        ))),
    }
}

fn window<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let days = text.strip_suffix('d').and_then(|days| days.parse().ok());
    match days {
        Some(days @ 1..=90_u64) => Ok(Duration::from_secs(days * 86_400)),
        _ => Err(de::Error::custom(format_args!(
            "`{text}`: write whole days from `1d` to `90d`, such as `30d`"
        ))),
    }
}

/// One band, or a list of them.
fn bands<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Band>, D::Error> {
    struct Bands;

    impl<'de> Visitor<'de> for Bands {
        type Value = Vec<Band>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a band such as `lt_2k`, or a list of bands")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<Band>, E> {
            let text: de::value::StrDeserializer<'_, E> =
                de::IntoDeserializer::into_deserializer(text);
            Ok(vec![Band::deserialize(text)?])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Band>, A::Error> {
            let mut bands = Vec::new();
            while let Some(band) = items.next_element()? {
                bands.push(band);
            }
            if bands.is_empty() {
                return Err(de::Error::custom(
                    "is an empty list, which nothing is in; leave the key out for every band",
                ));
            }
            Ok(bands)
        }
    }

    deserializer.deserialize_any(Bands)
}

#[cfg(test)]
mod tests;
