//! Clock event reasons: the bits of the mask, by the names that the exporter gives them.
//!
//! Source: DCGM `dcgm_fields.h` (clock event reasons) and NVML `nvmlClocksEventReasons`, where the bits are the same.

/// Bit and name.
const REASONS: [(u64, &str); 9] = [
    (0x1, "gpu_idle"),
    (0x2, "clocks_setting"),
    (0x4, "power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal"),
    (0x40, "hw_thermal"),
    (0x80, "hw_power_brake"),
    (0x100, "display_clocks"),
];

/// Software and hardware slowdown by heat.
pub(crate) const THERMAL: u64 = 0x20 | 0x40;

/// Names of the bits that are set, lowest first; bits that have no name yet are one reason, `unknown`.
pub fn reasons(mask: u64) -> impl Iterator<Item = &'static str> {
    let known = REASONS.iter().fold(0, |known, (bit, _)| known | bit);
    let named = REASONS
        .iter()
        .filter(move |(bit, _)| mask & bit != 0)
        .map(|(_, name)| *name);
    named.chain((mask & !known != 0).then_some("unknown"))
}

#[cfg(test)]
mod tests {
    use super::reasons;

    #[test]
    fn bits_have_names_and_new_bits_are_not_lost() {
        assert_eq!(reasons(0).count(), 0);
        assert_eq!(
            reasons(0x48).collect::<Vec<_>>(),
            ["hw_slowdown", "hw_thermal"]
        );
        assert_eq!(reasons(0x204).collect::<Vec<_>>(), ["power_cap", "unknown"]);
    }
}
