//! `GET /v1/objectives`: what is promised of requests, as the extension `slo` of the configuration says it, for the page that
//! draws it beside them.
//!
//! ```json
//! {"window_days": 30, "objectives": [{"name": "chat", "model": "qwen*", "input_band": ["lt_128"], "output_band": [],
//!   "promises": [{"measure": "ttft", "position": "engine", "threshold_s": 0.5, "target": 0.99}]}]}
//! ```
//!
//! It must not know how the promises were kept: that is on `/metrics`, and in the view `slo_compliance`.

use serde::Serialize;

use crate::config::Slo;
use crate::config::slo::{Band, Measure, Objective, Promise};

const DAY_S: u64 = 86_400;

/// The whole answer.
#[derive(Debug, Serialize)]
pub(super) struct Objectives<'a> {
    window_days: u64,
    objectives: Vec<Told<'a>>,
}

#[derive(Debug, Serialize)]
struct Told<'a> {
    name: &'a str,
    model: Option<&'a str>,
    input_band: Vec<&'static str>,
    output_band: Vec<&'static str>,
    promises: Vec<Promised>,
}

#[derive(Debug, Serialize)]
struct Promised {
    measure: &'static str,
    position: Option<&'static str>,
    threshold_s: Option<f64>,
    target: f64,
}

impl<'a> From<&'a Slo> for Objectives<'a> {
    fn from(slo: &'a Slo) -> Self {
        Self {
            window_days: slo.window.as_secs() / DAY_S,
            objectives: slo.objectives.iter().map(told).collect(),
        }
    }
}

fn told(objective: &Objective) -> Told<'_> {
    let words = |bands: &[Band]| bands.iter().map(|band| band.as_str()).collect();
    Told {
        name: &objective.name,
        model: objective.model.as_ref().map(|pattern| pattern.as_str()),
        input_band: words(&objective.input_band),
        output_band: words(&objective.output_band),
        promises: objective.promises.iter().map(promised).collect(),
    }
}

fn promised(promise: &Promise) -> Promised {
    let position = match promise.measure {
        Measure::Ttft(position) => Some(position.as_str()),
        Measure::Tpot | Measure::E2e | Measure::Errors => None,
    };
    Promised {
        measure: promise.measure.as_str(),
        position,
        threshold_s: promise.threshold.map(|threshold| threshold.as_secs_f64()),
        target: promise.target,
    }
}
