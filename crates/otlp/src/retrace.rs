//! Gives a span another `tracestate` without decoding it.

use crate::{encode::Writer, error::Result, wire::Fields};

/// Field number of `trace_state` in `Span`.
const TRACE_STATE: u32 = 3;

/// The bytes of a `Span` with this `tracestate`; every other field, known or not, is copied as it is. An empty one
/// is left out, which means the same.
///
/// # Errors
/// Broken framing.
pub fn with_trace_state(span: &[u8], trace_state: &str) -> Result<Vec<u8>> {
    let mut out = Writer::default();
    let mut fields = Fields::new(span);
    let mut start = 0;
    while let Some((number, _)) = fields.step()? {
        let end = fields.offset();
        if number != TRACE_STATE {
            out.raw(span.get(start..end).unwrap_or_default());
        }
        start = end;
    }
    if !trace_state.is_empty() {
        out.bytes(TRACE_STATE, trace_state.as_bytes());
    }
    Ok(out.finish())
}

#[cfg(test)]
mod tests {
    use super::with_trace_state;
    use crate::{export, span::SpanSummary};

    #[test]
    fn only_the_tracestate_changes() {
        for before in ["", "vendor=x"] {
            let export = crate::testing::trace(1).span("root", std::time::Duration::from_millis(3));
            let export = export
                .trace_state(before)
                .attribute("model", "qwen")
                .build();
            let at = export::spans(&export, &export::Limits::default())
                .next()
                .unwrap()
                .unwrap();
            let mut span = at.span.to_vec();
            // A field of a later version, and the tracestate a second time.
            span.extend([0xa0, 0x06, 0x01, 0x1a, 0x03, b'a', b'=', b'b']);
            let want = SpanSummary::read(&span).unwrap();
            assert_eq!(want.trace_state, "a=b");
            for after in ["ot=th:8", ""] {
                let changed = with_trace_state(&span, after).unwrap();
                let read = SpanSummary::read(&changed).unwrap();
                assert_eq!(read.trace_state, after);
                let back = SpanSummary {
                    trace_state: "a=b",
                    ..read
                };
                assert_eq!(back, want);
                let has_unknown = changed.windows(3).any(|bytes| bytes == [0xa0, 0x06, 0x01]);
                assert!(has_unknown);
                assert_eq!(with_trace_state(&changed, after).unwrap(), changed);
            }
        }
        for end in 1..5 {
            assert!(with_trace_state(&[0x1a, 0x05, b'a', b'=', b'b'][..end], "").is_err());
        }
    }
}
