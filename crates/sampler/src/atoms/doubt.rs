//! What is known of atoms where spans are known in part.

use otlp::attribute;

use super::condition::Owner;
use super::{AtomSet, Atoms, Meaning};
use crate::partial::Part;

impl AtomSet {
    /// Of spans with these status codes, and of every condition.
    fn of_first(n_meanings: usize) -> Self {
        let n_bits = n_meanings + super::STATUS_CODES;
        Self::from_bits(u128::MAX >> (super::SET_BITS - n_bits.min(super::SET_BITS)))
    }
}

impl Atoms {
    /// Every atom that there is.
    pub(crate) fn all(&self) -> AtomSet {
        AtomSet::of_first(self.meanings.len())
    }

    /// Every atom that looks at this part of a span.
    pub(crate) fn reading(&self, part: &Part) -> AtomSet {
        let mut found = self.ottl.reading(part);
        match part {
            Part::SpanAttribute(key) | Part::ResourceAttribute(key) => {
                for (atom, _) in self.by_key.get(key.as_bytes()).into_iter().flatten() {
                    found |= *atom;
                }
            }
            Part::TraceState => {
                for (atom, _) in &self.trace_states {
                    found |= *atom;
                }
            }
            Part::EventAttribute(_) | Part::Name | Part::StatusMessage | Part::EventName => {}
        }
        found
    }

    /// All parts of spans that atoms look at and storage may lose, sorted, each once.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut parts: Vec<Part> = self.ottl.parts().cloned().collect();
        for meaning in &self.meanings {
            if let Meaning::Attribute(key, _) = meaning {
                parts.push(Part::SpanAttribute(key.as_str().into()));
                parts.push(Part::ResourceAttribute(key.as_str().into()));
            }
        }
        if !self.trace_states.is_empty() {
            parts.push(Part::TraceState);
        }
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    /// Running durations that a trace of this duration had for certain, and those that it can have had.
    pub(crate) fn durations_up_to(&self, duration_ns: u64) -> (AtomSet, AtomSet) {
        let mut possible = AtomSet::EMPTY;
        for (atom, range) in &self.running_durations {
            // It grows from nothing to what it is at last.
            if super::whole_ms(duration_ns) > range.above_ms {
                possible |= *atom;
            }
        }
        (self.read_duration(duration_ns), possible)
    }

    /// Atoms on the keys of a resource's attributes, and those that the attributes satisfy.
    pub(crate) fn read_claim(&self, resource: &[u8]) -> Result<(AtomSet, AtomSet), otlp::Error> {
        let mut on_keys = AtomSet::EMPTY;
        for attribute in attribute::of_resource(resource) {
            let (key, _) = attribute?;
            for (atom, _) in self.by_key.get(key.as_bytes()).into_iter().flatten() {
                on_keys |= *atom;
            }
        }
        let attributes = attribute::of_resource(resource);
        let satisfied = self.read(attributes, AtomSet::EMPTY, Owner::Span)?;
        Ok((on_keys, satisfied))
    }

    /// These atoms one by one, each with what it looks at.
    pub(crate) fn describe(&self, atoms: AtomSet) -> impl Iterator<Item = (AtomSet, String)> {
        let statuses = ["status UNSET", "status OK", "status ERROR"];
        let statuses = statuses.map(str::to_owned).into_iter();
        let conditions = self.meanings.iter().map(|meaning| match meaning {
            Meaning::Attribute(key, _) => format!("attribute `{key}`"),
            Meaning::Flags => "W3C flags".to_owned(),
            Meaning::TraceState(entry) => format!("`{}` in tracestate", entry.key),
            Meaning::RunningDuration(_) => "order of arrival".to_owned(),
            Meaning::Ottl => "fields and attributes of conditions".to_owned(),
        });
        let all = statuses.chain(conditions).enumerate();
        let single = |(number, what)| (AtomSet::from_bits(1_u128 << number), what);
        all.map(single)
            .filter(move |(atom, _)| atoms.intersects(*atom))
    }
}
