//! Why a value of a sample is missing or doubtful.

use std::fmt;

/// One flag of a row; stored as text: `util_pct_unit_ambiguous`, `xid_preexisting` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Quality {
    /// Column that it is about; `None` for the whole row.
    pub column: Option<&'static str>,
    /// What is wrong.
    pub flag: Flag,
}

/// What can be wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flag {
    /// The name has been used with two units and nothing tells which: NULL.
    UnitAmbiguous,
    /// The unit was taken from the end of a name that is not known: kept.
    UnitBySuffix,
    /// Sent and impossible: NULL.
    OutOfRange,
    /// A total sent as a difference: NULL.
    DeltaTemporality,
    /// Each sharing pod has its own value and the device has none: NULL.
    PerPodValues,
    /// Two rows of the device disagree: the first is kept.
    Conflict,
    /// The counter fell: it started anew.
    CounterReset,
    /// An XID was there at first sight; when it happened is not known.
    XidPreexisting,
    /// The energy counter stands still although power is drawn: values are old.
    Stale,
    /// The time is that of receipt: none was sent, or one that cannot be.
    TimeFromReceipt,
}

impl Flag {
    const fn as_str(self) -> &'static str {
        match self {
            Self::UnitAmbiguous => "unit_ambiguous",
            Self::UnitBySuffix => "unit_by_suffix",
            Self::OutOfRange => "out_of_range",
            Self::DeltaTemporality => "delta_temporality",
            Self::PerPodValues => "per_pod_values",
            Self::Conflict => "conflict",
            Self::CounterReset => "counter_reset",
            Self::XidPreexisting => "xid_preexisting",
            Self::Stale => "stale",
            Self::TimeFromReceipt => "time_from_receipt",
        }
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(column) = self.column {
            write!(f, "{column}_")?;
        }
        f.write_str(self.flag.as_str())
    }
}

/// Flags of one row, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(Vec<Quality>);

impl Flags {
    pub(super) fn row(&mut self, flag: Flag) {
        self.insert(Quality { column: None, flag });
    }

    pub(super) fn column(&mut self, column: &'static str, flag: Flag) {
        let column = Some(column);
        self.insert(Quality { column, flag });
    }

    pub(super) fn has(&self, column: &'static str, flag: Flag) -> bool {
        let column = Some(column);
        self.0.contains(&Quality { column, flag })
    }

    pub(super) fn remove(&mut self, column: &'static str, flag: Flag) {
        let removed = Quality {
            column: Some(column),
            flag,
        };
        self.0.retain(|quality| *quality != removed);
    }

    pub(super) fn into_sorted(mut self) -> Vec<Quality> {
        self.0.sort_unstable();
        self.0
    }

    fn insert(&mut self, quality: Quality) {
        if !self.0.contains(&quality) {
            self.0.push(quality);
        }
    }
}
