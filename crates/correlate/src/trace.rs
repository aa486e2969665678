//! The requests of one trace, looked at together.

use tables::requests::Request;

/// Sets [`Request::wrapper`] on requests that another request of the same trace restates in more
/// detail: its direct parent's, by another engine (Dynamo's `engine.generate` around vLLM's
/// `llm_request`). Retries and the halves of a disaggregated request are no wrappers: their spans
/// are not parents of each other, or they have the same engine.
pub fn mark_wrappers(requests: &mut [Request]) {
    for outer in 0..requests.len() {
        let is_wrapper = {
            let this = &requests[outer];
            requests.iter().any(|inner| {
                inner.trace_id == this.trace_id
                    && inner.parent_span_id == Some(this.span_id)
                    && inner.engine != this.engine
            })
        };
        requests[outer].wrapper = is_wrapper;
    }
}

/// The request whose numbers stand for the trace: the longest whose output its caller got; of equally
/// long ones, that with more output, then the first.
pub fn main_request(requests: &[Request]) -> Option<&Request> {
    let mut main: Option<&Request> = None;
    let counts = |request: &&Request| !request.wrapper && !request.superseded;
    for request in requests.iter().filter(counts) {
        let is_longer = main.is_none_or(|main| {
            let by_length = request.e2e_s.partial_cmp(&main.e2e_s);
            let order = by_length.unwrap_or(std::cmp::Ordering::Equal);
            order
                .then(request.output_tokens.cmp(&main.output_tokens))
                .is_gt()
        });
        if is_longer {
            main = Some(request);
        }
    }
    main.or_else(|| requests.first())
}

#[cfg(test)]
mod tests {
    use otlp::{SpanId, TraceId};
    use tables::requests::Request;

    use super::{main_request, mark_wrappers};

    fn request(span: u8, parent: Option<u8>, engine: &'static str, e2e_s: Option<f64>) -> Request {
        let span_id = |n| SpanId::from_slice(&[n; 8]).unwrap();
        let trace_id = TraceId::from_slice(&[1; 16]).unwrap();
        Request {
            parent_span_id: parent.map(span_id),
            engine: Some(engine),
            e2e_s,
            ..Request::new(trace_id, span_id(span))
        }
    }

    #[test]
    fn a_span_around_another_engine_is_a_wrapper_and_not_the_main_request() {
        let mut requests = [
            request(1, None, "dynamo", Some(9.0)),
            request(2, Some(1), "vllm", Some(8.0)),
            request(3, Some(2), "vllm", Some(1.0)),
        ];
        mark_wrappers(&mut requests);
        assert_eq!(
            requests.each_ref().map(|request| request.wrapper),
            [true, false, false]
        );
        assert_eq!(main_request(&requests).unwrap().e2e_s, Some(8.0));
    }

    #[test]
    fn a_trace_without_known_lengths_has_a_main_request() {
        assert_eq!(main_request(&[]), None);
        let requests = [
            request(1, None, "vllm", None),
            request(2, None, "vllm", None),
        ];
        assert_eq!(main_request(&requests), Some(&requests[0]));
    }
}
