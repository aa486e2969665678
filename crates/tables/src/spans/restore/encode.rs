//! A stored span as OTLP bytes (`trace.proto`).

use otlp::encode::Writer;
use otlp::span::StatusCode;

use super::{Holder, Restored, StoredSpan, StoredValue};

impl StoredSpan {
    /// The span in its likely reading, but for values in maps of more than `levels_max` levels, which stay the text
    /// that is stored of them: many readers of protobuf refuse deep messages.
    pub fn restore_within(&self, levels_max: usize) -> Restored {
        let is_text = |reading: &Option<StoredValue>| matches!(reading, Some(StoredValue::Str(_)));
        let attributes = self.attributes.iter().enumerate();
        let choice = attributes.filter_map(|(place, attribute)| {
            let likely = attribute.readings.first()?.as_ref()?;
            let is_deep = likely.levels() > levels_max;
            let text = is_deep.then(|| attribute.readings.iter().position(is_text));
            Some((place, text??))
        });
        self.encode(&choice.collect::<Vec<_>>())
    }

    /// Encodes the span; `choice` names other readings than the likely ones by ascending
    /// places in [`StoredSpan::attributes`].
    pub(super) fn encode(&self, choice: &[(usize, usize)]) -> Restored {
        let chosen = Chosen::new(self, choice);
        let mut resource = Writer::default();
        self.write_attributes(Holder::Resource, 1, &chosen, &mut resource);
        let mut scope = Writer::default();
        let (name, version) = &self.scope;
        text(1, name, &mut scope);
        text(2, version, &mut scope);
        Restored {
            resource: resource.finish(),
            resource_schema_url: self.resource_schema_url.clone(),
            scope: scope.finish(),
            span: self.encode_span(&chosen),
        }
    }

    fn encode_span(&self, chosen: &Chosen<'_>) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes(1, self.trace_id.as_bytes());
        out.bytes(2, self.span_id.as_bytes());
        text(3, &self.trace_state, &mut out);
        if let Some(parent) = &self.parent_span_id {
            out.bytes(4, parent.as_bytes());
        }
        text(5, &self.name, &mut out);
        number(6, u64::from(self.kind.number()), &mut out);
        out.fixed64(7, self.start_time_unix_nano);
        out.fixed64(8, self.end_time_unix_nano);
        self.write_attributes(Holder::Span, 9, chosen, &mut out);
        let [attributes, events, links] = self.dropped_counts;
        number(10, u64::from(attributes), &mut out);
        for (place, event) in self.events.iter().enumerate() {
            out.open(11);
            out.fixed64(1, event.time_unix_nano);
            text(2, &event.name, &mut out);
            self.write_attributes(Holder::Event(place), 3, chosen, &mut out);
            number(4, u64::from(event.dropped_attributes_count), &mut out);
            out.close();
        }
        number(12, u64::from(events), &mut out);
        for (place, link) in self.links.iter().enumerate() {
            out.open(13);
            if let Some(trace_id) = &link.trace_id {
                out.bytes(1, trace_id.as_bytes());
            }
            if let Some(span_id) = &link.span_id {
                out.bytes(2, span_id.as_bytes());
            }
            text(3, &link.trace_state, &mut out);
            self.write_attributes(Holder::Link(place), 4, chosen, &mut out);
            number(5, u64::from(link.dropped_attributes_count), &mut out);
            out.fixed32(6, link.flags);
            out.close();
        }
        number(14, u64::from(links), &mut out);
        if self.status_code != StatusCode::Unset || !self.status_message.is_empty() {
            out.open(15);
            text(2, &self.status_message, &mut out);
            number(3, u64::from(self.status_code.number()), &mut out);
            out.close();
        }
        out.fixed32(16, self.flags);
        out.finish()
    }

    fn write_attributes(&self, holder: Holder, field: u32, chosen: &Chosen<'_>, out: &mut Writer) {
        for place in chosen.places_of(self, holder) {
            let Some(attribute) = self.attributes.get(*place) else {
                continue;
            };
            if let Some(Some(value)) = attribute.readings.get(chosen.reading_of(*place)) {
                value.write_attribute(field, &attribute.key, out);
            }
        }
    }
}

/// Which reading of each attribute is written, and where the attributes of each holder are: a span may have thousands of
/// events, so that nothing is looked for one by one.
struct Chosen<'a> {
    /// Places of attributes with other readings than the likely ones, ascending.
    choice: &'a [(usize, usize)],
    /// Places of all attributes, by holder, in order.
    places: Vec<usize>,
}

impl<'a> Chosen<'a> {
    fn new(span: &StoredSpan, choice: &'a [(usize, usize)]) -> Self {
        let mut places: Vec<usize> = (0..span.attributes.len()).collect();
        places.sort_by_key(|place| {
            span.attributes
                .get(*place)
                .map(|attribute| attribute.holder)
        });
        Self { choice, places }
    }

    fn places_of(&self, span: &StoredSpan, holder: Holder) -> &[usize] {
        let held = |place: &usize| {
            span.attributes
                .get(*place)
                .map(|attribute| attribute.holder)
        };
        let from = self
            .places
            .partition_point(|place| held(place) < Some(holder));
        let to = self
            .places
            .partition_point(|place| held(place) <= Some(holder));
        self.places.get(from..to).unwrap_or_default()
    }

    fn reading_of(&self, place: usize) -> usize {
        let found = self
            .choice
            .binary_search_by_key(&place, |(chosen, _)| *chosen);
        let found = found.ok().and_then(|found| self.choice.get(found));
        found.map_or(0, |(_, reading)| *reading)
    }
}

fn text(field: u32, text: &str, out: &mut Writer) {
    if !text.is_empty() {
        out.bytes(field, text.as_bytes());
    }
}

fn number(field: u32, number: u64, out: &mut Writer) {
    if number != 0 {
        out.varint(field, number);
    }
}
