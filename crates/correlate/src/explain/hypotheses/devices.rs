//! Hypotheses about the devices: errors, heat, power, links.

use super::{Cause, Fact, FactRows, FactSource, Hypothesis, Strength, fact, is_attributed};
use crate::explain::{DeviceFact, Phase};

/// A clock below this share of its usual slows work down.
const CLOCK_SHARE_MAX: f64 = 0.9;

/// Share of samples with a thermal reason; fewer may be one of a kind.
const THERMAL_SHARE_MIN: f64 = 0.05;

/// XID errors that say something about another error, or record one that was handled.
const SECONDARY_XIDS: [&str; 4] = ["43", "45", "63", "154"];

pub(super) fn judge(
    devices: &[DeviceFact],
    phase: Phase,
    open: &mut Vec<String>,
) -> Vec<Hypothesis> {
    let known: Vec<&DeviceFact> = devices
        .iter()
        .filter(|device| is_attributed(device))
        .collect();
    if known.is_empty() {
        let why = match devices
            .iter()
            .find_map(|device| device.missing_link.as_deref())
        {
            Some(link) => format!(
                "nothing can be said about GPUs: the chain from the request to them breaks at `{link}`"
            ),
            None => {
                "nothing can be said about GPUs: there is no evidence for this request".to_owned()
            }
        };
        open.push(why);
        return Vec::new();
    }
    if known
        .iter()
        .any(|device| device.attribution == "shared_gpu")
    {
        open.push(
            "other pods held a GPU of this request too: its values are those of all of them"
                .to_owned(),
        );
    }
    vec![
        xid(&known, phase),
        ecc(&known),
        thermal(&known),
        power(&known),
        nvlink(&known),
    ]
}

fn on(device: &DeviceFact) -> FactSource {
    let device = device.gpu_uuid.as_deref().unwrap_or_default();
    FactSource::one(FactRows::Devices, device)
}

fn none(cause: Cause, text: &str) -> Hypothesis {
    Hypothesis::new(cause).contradicted(fact(Strength::CoTemporal, FactRows::Devices, text))
}

/// An error stops the engine: those that run then, and those that come to a queue that does not move.
fn xid(devices: &[&DeviceFact], phase: Phase) -> Hypothesis {
    let telling = |codes: &[String]| {
        codes
            .iter()
            .any(|code| !SECONDARY_XIDS.contains(&code.as_str()))
    };
    for device in devices {
        let (codes, when) = if telling(&device.xids) {
            (&device.xids, "in the request's time")
        } else if phase == Phase::Queue && telling(&device.xids_before) {
            (
                &device.xids_before,
                "in the minute before the request, which waited",
            )
        } else {
            continue;
        };
        let text = format!("XID {} appeared {when}", codes.join(", "));
        return Hypothesis::new(Cause::Xid).supported(fact(Strength::CoTemporal, on(device), text));
    }
    none(
        Cause::Xid,
        "no XID error appeared in the request's time or in the minute before",
    )
}

/// Corrected errors cost nothing that a request would notice; these stop a process, or retire pages of memory.
fn ecc(devices: &[&DeviceFact]) -> Hypothesis {
    counted(
        Cause::Ecc,
        devices,
        |device| device.ecc_dbe,
        "memory errors that could not be corrected were counted between the samples around it",
        "no memory error that could not be corrected was counted",
    )
}

/// Errors of a kind that an exporter counts: of the first device with any.
fn counted(
    cause: Cause,
    devices: &[&DeviceFact],
    pick: impl Fn(&DeviceFact) -> Option<f64>,
    some: &str,
    no: &str,
) -> Hypothesis {
    let counts = || {
        devices
            .iter()
            .filter_map(|device| Some((device, pick(device)?)))
    };
    match counts().find(|(_, errors)| *errors > 0.0) {
        Some((device, errors)) => {
            let text = format!("{errors:.0} {some}");
            Hypothesis::new(cause).supported(fact(Strength::CoTemporal, on(device), text))
        }
        None if counts().next().is_none() => Hypothesis::new(cause),
        None => none(cause, no),
    }
}

/// The clock of a device against its usual; `None` where either is not known.
fn clock(device: &DeviceFact) -> Option<(f64, Fact)> {
    let (clock, usual) = device.sm_clock_mhz.zip(device.baseline_sm_clock_mhz)?;
    let text = format!("clock {clock:.0} MHz, usually {usual:.0} MHz");
    Some((clock / usual, fact(Strength::CoTemporal, on(device), text)))
}

fn thermal(devices: &[&DeviceFact]) -> Hypothesis {
    let hypothesis = Hypothesis::new(Cause::ThermalThrottle);
    let hottest = devices
        .iter()
        .filter(|device| device.thermal_throttle_share.is_some())
        .max_by(|one, other| {
            let share = |device: &DeviceFact| device.thermal_throttle_share.unwrap_or_default();
            share(one).total_cmp(&share(other))
        });
    let Some(device) = hottest else {
        return hypothesis;
    };
    let share = device.thermal_throttle_share.unwrap_or_default();
    if share < THERMAL_SHARE_MIN {
        return none(Cause::ThermalThrottle, "no sample had a thermal reason");
    }
    let temp = device.temp_c.map_or(String::new(), |temp| {
        format!(" at up to {temp:.0} degrees Celsius")
    });
    let text = format!(
        "slowed by heat in {:.0} % of the samples{temp}",
        share * 100.0
    );
    let said = fact(Strength::CoTemporal, on(device), text);
    match clock(device) {
        Some((share, clock)) if share < CLOCK_SHARE_MAX => {
            let mut hypothesis = hypothesis.supported(said);
            hypothesis.facts_for.push(clock);
            hypothesis
        }
        Some((_, clock)) => hypothesis.contradicted(clock),
        None => Hypothesis {
            facts_for: vec![said],
            ..hypothesis
        },
    }
}

fn power(devices: &[&DeviceFact]) -> Hypothesis {
    // The software power cap is normal under load; the brake is not.
    let braked = devices.iter().find(|device| {
        device
            .throttle_reasons
            .iter()
            .any(|reason| reason == "hw_power_brake")
    });
    match braked {
        Some(device) => {
            let said = fact(
                Strength::CoTemporal,
                on(device),
                "slowed by an external power brake (hw_power_brake)",
            );
            let mut hypothesis = Hypothesis::new(Cause::PowerThrottle).supported(said);
            hypothesis
                .facts_for
                .extend(clock(device).map(|(_, clock)| clock));
            hypothesis
        }
        None if devices
            .iter()
            .all(|device| device.thermal_throttle_share.is_none()) =>
        {
            Hypothesis::new(Cause::PowerThrottle)
        }
        None => none(Cause::PowerThrottle, "no sample had a power brake"),
    }
}

fn nvlink(devices: &[&DeviceFact]) -> Hypothesis {
    counted(
        Cause::Nvlink,
        devices,
        |device| device.nvlink_errors,
        "NVLink errors between the samples around the request",
        "no NVLink error was counted",
    )
}
