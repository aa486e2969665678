//! Moves a request in time, in place: replaying captured traffic as if it happened now.

use crate::{
    error::Result,
    export::Signal,
    schema::{self, Kind, Message},
    span::Identity,
    wire::Fields,
};

/// Adds `delta_ns` to every time in the request: start and end of spans and points, times of events,
/// log records and exemplars. A time of zero (unknown) stays zero; results are kept within
/// `1..=u64::MAX`. The number of bytes does not change.
///
/// # Errors
/// Broken framing; nothing is changed then.
pub fn shift(body: &mut [u8], signal: Signal, delta_ns: i128) -> Result<()> {
    let mut times = Vec::new();
    collect(Fields::new(body), schema::request(signal), &mut times)?;
    for end in times {
        let bytes = body
            .get_mut(..end)
            .and_then(|before| before.last_chunk_mut::<8>());
        if let Some(bytes) = bytes {
            let moved = moved(u64::from_le_bytes(*bytes), delta_ns);
            *bytes = moved.to_le_bytes();
        }
    }
    Ok(())
}

/// Earliest start and latest end of the spans of a trace request, zeros left out; `None` if no span
/// has a time.
///
/// # Errors
/// Broken framing.
pub fn time_range(body: &[u8]) -> Result<Option<(u64, u64)>> {
    let mut range: Option<(u64, u64)> = None;
    for at in crate::export::every_span(body) {
        let identity = Identity::read(Fields::new(at?.span))?;
        for time in [identity.start_time_unix_nano, identity.end_time_unix_nano] {
            if time != 0 {
                let (earliest, latest) = range.unwrap_or((time, time));
                range = Some((earliest.min(time), latest.max(time)));
            }
        }
    }
    Ok(range)
}

fn moved(unix_nano: u64, delta_ns: i128) -> u64 {
    if unix_nano == 0 {
        return 0;
    }
    let moved = i128::from(unix_nano).saturating_add(delta_ns);
    u64::try_from(moved.clamp(1, i128::from(u64::MAX))).unwrap_or(u64::MAX)
}

/// Collects the offset behind each time. Values are not entered: there is no time in them.
fn collect(mut fields: Fields<'_>, message: &Message, times: &mut Vec<usize>) -> Result<()> {
    while let Some((number, value)) = fields.step()? {
        let Some(field) = message.field(number) else {
            continue;
        };
        match field.kind {
            Kind::Message(inner) if !is_value(inner) => {
                collect(fields.message_of(number, value)?, inner, times)?;
            }
            Kind::Fixed64 if field.name.ends_with("imeUnixNano") => {
                fields.fixed64_of(number, value)?;
                times.push(fields.offset());
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_value(message: &Message) -> bool {
    std::ptr::eq(message, &raw const schema::KEY_VALUE)
        || std::ptr::eq(message, &raw const schema::ANY_VALUE)
}

#[cfg(test)]
mod tests;
