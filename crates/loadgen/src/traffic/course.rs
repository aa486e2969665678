//! The moments of one request, from the outside in.

use std::time::Duration;

use super::plan::Request;

/// One way over the network, and the small work on either end of it.
pub(super) const HOP: u64 = 400_000;
/// Checking the key, and choosing a route, in the gateway.
pub(super) const AUTH: u64 = 2_000_000;
/// Tokenising before, and detokenising after, the engine's own phases.
pub(super) const FRONTEND: u64 = 1_500_000;
/// How fast the engine says no.
pub(super) const REFUSAL: u64 = 3_000_000;

/// Start and end in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Interval {
    /// What lies one hop inside on both sides.
    fn inner(self) -> Self {
        Self {
            start: self.start + HOP,
            end: self.end - HOP,
        }
    }
}

/// The moments of one request, from the outside in.
pub(super) struct Course {
    pub(super) client: Interval,
    pub(super) gateway: Interval,
    pub(super) gateway_call: Interval,
    pub(super) rag: Interval,
    pub(super) retrieval: Interval,
    pub(super) chat_model: Interval,
    pub(super) rag_call: Interval,
    pub(super) engine: Interval,
    pub(super) first_token: u64,
}

impl Course {
    pub(super) fn of(request: &Request) -> Self {
        let start = request.start_unix_nano;
        let retrieval_start = start + 2 * HOP + AUTH + nanos(request.outside.gateway) + HOP;
        let retrieval_end = retrieval_start + nanos(request.retrieval);
        let rag_call_start = retrieval_end + 2 * HOP;
        let engine_start = rag_call_start + HOP;
        let first_token = engine_start + FRONTEND + nanos(request.queue + request.prefill);
        let engine_end = if request.cause.is_failure() {
            engine_start + REFUSAL
        } else {
            first_token + nanos(request.decode) + FRONTEND
        };
        let chat_model = Interval {
            start: retrieval_end + HOP,
            end: engine_end + 2 * HOP,
        };
        let rag = Interval {
            start: retrieval_start - HOP,
            end: chat_model.end + HOP,
        };
        let gateway_call = Interval {
            start: rag.start - HOP,
            end: rag.end + HOP,
        };
        // A client that does not read holds up whoever writes to it: the gateway's answer, not its call.
        let delivered = gateway_call.end + nanos(request.outside.delivery);
        Self {
            client: Interval {
                start,
                end: delivered + 2 * HOP,
            },
            gateway: Interval {
                start: start + HOP,
                end: delivered + HOP,
            },
            gateway_call,
            rag,
            retrieval: Interval {
                start: retrieval_start,
                end: retrieval_end,
            },
            chat_model,
            rag_call: chat_model.inner(),
            engine: Interval {
                start: engine_start,
                end: engine_end,
            },
            first_token,
        }
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
