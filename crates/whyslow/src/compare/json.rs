//! A comparison for programs: one JSON object; keys stay, keys may come.

use anyhow::Context as _;
use correlate::compare::{Apart, Change, Estimate, Interval, Slow, Trait};
use serde_json::{Map, Value, json};

use super::lines::{measure_name, scale};
use super::{Compared, sides};
use crate::simulate::time;

pub(super) fn render(compared: &Compared) -> anyhow::Result<String> {
    let comparison = &compared.comparison;
    let side = |idx: usize, side: &sides::Side| {
        json!({
            "from": time(side.span.from),
            "to": time(side.span.to),
            "where": side.condition,
            "requests": compared.n_stored[idx],
            "requests_read": comparison.n_requests[idx],
            "requests_ok": comparison.n_ok[idx],
        })
    };
    let object = json!({
        "before": side(0, &compared.sides.before),
        "after": side(1, &compared.sides.after),
        "where": compared.sides.condition,
        "by": compared.by,
        "confidence": comparison.confidence,
        "share_read": compared.share,
        "changed": comparison.reported().count(),
        "hypotheses": comparison.n_hypotheses,
        "permutations": comparison.n_permutations,
        "blocks": comparison.cut.map(|cut| json!({
            "before": cut.n_blocks[0],
            "after": cut.n_blocks[1],
            "before_s": cut.block_s[0],
            "after_s": cut.block_s[1],
            "resemblance": cut.resemblance,
            "uneven": cut.is_uneven,
        })),
        "cohorts": comparison.n_cohorts[1],
        "cohorts_compared": comparison.n_cohorts[0],
        "coverage": comparison.coverage,
        "mix_distance": comparison.mix_distance,
        "changes": comparison.changes.iter().map(|each| change(compared, each)).collect::<Value>(),
        "slow": comparison.apart.iter().map(apart).collect::<Value>(),
        "open": comparison.open,
    });
    let text = serde_json::to_string_pretty(&object).context("write the comparison as JSON")?;
    Ok(format!("{text}\n"))
}

fn change(compared: &Compared, change: &Change) -> Value {
    let scale = scale(compared, &change.measure);
    let (kind, measure, quantile) = measure_name(&change.measure);
    json!({
        "cohort": pairs(&change.cohort),
        "kind": kind,
        "measure": measure,
        "quantile": quantile,
        "standing": change.standing.as_str(),
        "before": estimate(&change.before, scale),
        "after": estimate(&change.after, scale),
        "difference": interval(&change.difference, scale),
        "ratio": change.ratio.map(|ratio| interval(&ratio, 1.0)),
        "overall": change.overall.map(|(before, after)| json!({ "before": before, "after": after })),
        "probability": change.probability,
    })
}

fn pairs(pairs: &[(String, Option<String>)]) -> Value {
    let pairs = pairs
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn estimate(estimate: &Estimate, scale: f64) -> Value {
    json!({
        "value": estimate.value * scale,
        "low": estimate.low * scale,
        "high": estimate.high * scale,
        "requests": estimate.n_requests,
    })
}

fn interval(interval: &Interval, scale: f64) -> Value {
    json!({
        "value": interval.value * scale,
        "low": interval.low * scale,
        "high": interval.high * scale,
    })
}

fn apart(apart: &Apart) -> Value {
    json!({
        "by": apart.latency.column(),
        "slow": match apart.slow {
            Slow::ForItsKind => "for_its_kind",
            Slow::OfAll => "of_all",
        },
        "limit_s": apart.limit,
        "slow_requests": apart.n_slow,
        "other_requests": apart.n_rest,
        "requests_not_judged": apart.n_unjudged,
        "traits": apart.traits.iter().map(one_trait).collect::<Value>(),
        "attributes_left_out": apart.left_out,
    })
}

fn one_trait(found: &Trait) -> Value {
    json!({
        "attribute": found.attribute,
        "value": found.value,
        "also": pairs(&found.also),
        "slow_requests": found.n_slow,
        "other_requests": found.n_rest,
        "share_of_slow": estimate(&found.share_of_slow, 1.0),
        "share_of_others": estimate(&found.share_of_rest, 1.0),
        "difference": interval(&found.difference, 1.0),
        "correlation": found.correlation,
        "probability": found.probability,
        "sets_apart": found.sets_apart,
    })
}
