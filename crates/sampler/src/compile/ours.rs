//! Policies that the Collector does not have, and `probabilistic`, of which it has half.

use crate::adaptive::{ADAPTIVE_KEYS_MAX, Adaptive, Settings, Target};
use crate::atoms::AtomsBuilder;
use crate::error::{Error, Result, ValueProblem};
use crate::policy::{self, ProbabilisticMode, SqlCondition};
use crate::probability::{Passing, Salt, Share};
use crate::sql::Condition;
use crate::threshold::Threshold;
use crate::verdict::Test;

use super::wrong;

/// As SDKs and the Collector do.
const PRECISION: u32 = 4;

pub(super) fn compile_probabilistic(policy: &str, config: &policy::Probabilistic) -> Result<Test> {
    let percentage = config.sampling_percentage;
    if !percentage.is_finite() {
        let key = "probabilistic.sampling_percentage";
        return Err(wrong(policy, key, ValueProblem::NotFinite));
    }
    if config.mode == ProbabilisticMode::HashSeed {
        if config.sampling_precision.is_some() {
            let other = "`mode: equalizing` or `mode: proportional`";
            let problem = ValueProblem::OnlyWith { other };
            return Err(wrong(policy, "probabilistic.sampling_precision", problem));
        }
        return Ok(Test::Probabilistic {
            salt: Salt::new(&config.hash_salt),
            share: Share::new(percentage),
        });
    }
    if !config.hash_salt.is_empty() {
        let problem = ValueProblem::OnlyWith {
            other: "`mode: hash_seed`",
        };
        return Err(wrong(policy, "probabilistic.hash_salt", problem));
    }
    let precision = config.sampling_precision.unwrap_or(PRECISION);
    if !(1..=14).contains(&precision) {
        let found = precision.into();
        let (min, max) = (1, 14);
        let problem = ValueProblem::OutOfRange { found, min, max };
        return Err(wrong(policy, "probabilistic.sampling_precision", problem));
    }
    let probability = percentage / 100.0;
    Ok(Test::Passing(match config.mode {
        ProbabilisticMode::Proportional => Passing::Proportional {
            probability,
            precision,
        },
        ProbabilisticMode::Equalizing | ProbabilisticMode::HashSeed => {
            Passing::Equalizing(Threshold::of_probability(probability, precision))
        }
    }))
}

pub(super) fn compile_adaptive(
    policy: &str,
    config: &policy::Adaptive,
    atoms: &mut AtomsBuilder,
) -> Result<Test> {
    let positive = |key, found: f64, max: f64, range| {
        if found > 0.0 && found <= max {
            return Ok(found);
        }
        Err(wrong(policy, key, ValueProblem::NotWithin { found, range }))
    };
    let target = match (config.target_traces_per_second, config.target_percentage) {
        (Some(found), None) => {
            let key = "adaptive.target_traces_per_second";
            Target::PerSecond(positive(key, found, f64::MAX, "above 0")?)
        }
        (None, Some(found)) => {
            let key = "adaptive.target_percentage";
            let percent = positive(key, found, 100.0, "above 0 and at most 100")?;
            Target::Share(percent / 100.0)
        }
        (None, None) | (Some(_), Some(_)) => {
            let keys = "`target_traces_per_second` and `target_percentage`";
            return Err(wrong(policy, "adaptive", ValueProblem::NotOneOf { keys }));
        }
    };
    let range = |key, found, min, max| {
        if (min..=max).contains(&found) {
            return Ok(());
        }
        let problem = ValueProblem::OutOfRange { found, min, max };
        Err(wrong(policy, key, problem))
    };
    let interval_s = config.adjustment_interval.as_secs();
    range(
        "adaptive.adjustment_interval in seconds",
        interval_s,
        1,
        3_600,
    )?;
    range(
        "adaptive.max_keys",
        config.max_keys,
        1,
        policy::Adaptive::KEYS_MAX,
    )?;
    let weight = positive(
        "adaptive.weight",
        config.weight,
        1.0,
        "above 0 and at most 1",
    )?;
    Ok(Test::Adaptive(Box::new(Adaptive::new(Settings {
        places: places(policy, &config.keys, atoms)?,
        target,
        interval_nanos: interval_s * 1_000_000_000,
        weight,
        keys_max: usize::try_from(config.max_keys).unwrap_or(usize::MAX),
    }))))
}

fn places(policy: &str, keys: &[String], atoms: &mut AtomsBuilder) -> Result<Vec<usize>> {
    let key = "adaptive.keys";
    if keys.is_empty() || keys.iter().any(String::is_empty) {
        return Err(wrong(policy, key, ValueProblem::Empty));
    }
    let place = |name: &String| {
        let limit = ADAPTIVE_KEYS_MAX;
        let problem = ValueProblem::TooManyKeys { limit };
        atoms
            .keys()
            .place(name)
            .ok_or_else(|| wrong(policy, key, problem))
    };
    keys.iter().map(place).collect()
}

pub(super) fn compile_sql(policy: &str, config: &SqlCondition) -> Result<Test> {
    let condition = Condition::compile(&config.condition).map_err(|problem| Error::Sql {
        policy: policy.to_owned(),
        problem,
    })?;
    Ok(Test::Sql(condition))
}
