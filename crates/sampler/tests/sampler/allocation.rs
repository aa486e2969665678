//! A span costs no allocation of its own: what policies look at is read in place.

#![expect(
    unsafe_code,
    reason = "counting allocations takes an allocator, which is an unsafe trait"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use otlp::span::SpanSummary;
use sampler::{Reports, Sampler, SpanHandle};
use serde_json::json;

use crate::bytes::{Span, Value};
use crate::run::{T0, config};

struct Counting;

thread_local! {
    static N_ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    N_ALLOCATIONS.with(|n| n.set(n.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on, and `alloc` gave the system's memory.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as for `dealloc`.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Policies of every type that looks at a span, none of which matches, so that all are looked at.
fn policies() -> serde_json::Value {
    let string = |key: &str, value: &str, is_pattern: bool| json!({"key": key, "values": [value], "enabled_regex_matching": is_pattern});
    json!([
        {"name": "a", "type": "string_attribute", "string_attribute": string("model", "none", false)},
        {"name": "b", "type": "string_attribute", "string_attribute": string("model", "^none$", true)},
        {"name": "c", "type": "numeric_attribute", "numeric_attribute": {"key": "ttft", "min_value": 10}},
        {"name": "d", "type": "boolean_attribute", "boolean_attribute": {"key": "stream", "value": false}},
        {"name": "e", "type": "trace_state", "trace_state": {"key": "k", "values": ["none"]}},
        {"name": "f", "type": "trace_flags"},
        {"name": "g", "type": "ottl_condition", "ottl_condition": {
            "error_mode": "ignore",
            "span": [
                "IsMatch(attributes[\"ttft\"], \"^9\") or String(attributes[\"ttft\"]) == \"9\"",
                "trace_id.string == \"00\" or IsMatch(name, \"none\") or Len(attributes[\"stream\"]) == 3",
                "resource.attributes[\"service.name\"] == \"none\" and kind == SPAN_KIND_CLIENT",
            ],
            "spanevent": ["name == \"none\" or IsMatch(attributes[\"kind\"], \"none\")"],
        }},
        {"name": "h", "type": "adaptive", "adaptive": {
            "keys": ["root.name", "model", "service.name"], "target_percentage": 1
        }},
        {"name": "i", "type": "probabilistic", "probabilistic": {"sampling_percentage": 1, "mode": "equalizing"}},
        {"name": "j", "type": "sql_condition", "sql_condition": {"condition": "array_has(services, 'none')"}},
    ])
}

#[test]
fn a_span_of_a_known_trace_allocates_nothing() {
    const N_SPANS: u64 = 1_000;
    let keys = json!({"compat": "collector", "policies": policies()});
    let mut sampler = Sampler::new(&config(keys)).unwrap();
    let text = |text: &str| Value::Str(text.to_owned());
    let span = Span {
        span_id: 1,
        name: "llm_request".to_owned(),
        trace_state: "vendor=x,k=v,ot=th:8;rv:80000000000001".to_owned(),
        attributes: vec![
            ("model".to_owned(), text("qwen")),
            ("ttft".to_owned(), Value::Double(0.213)),
            ("stream".to_owned(), Value::Bool(true)),
        ],
        events: vec![(
            "exception".to_owned(),
            vec![("kind".to_owned(), text("some"))],
        )],
        resource: vec![("service.name".to_owned(), text("vllm"))],
        ..Span::default()
    };
    let (bytes, resource) = (span.encode(), span.encode_resource());
    let mut observe = || {
        let facts = sampler.read_resource(&resource).unwrap();
        let summary = SpanSummary::read(&bytes).unwrap();
        let handle = SpanHandle {
            position: 0,
            offset: 0,
        };
        sampler.observe(&facts, &bytes, &summary, handle, Reports::Itself, T0);
    };
    observe();
    // A pattern keeps memory from its first match on.
    observe();
    let before = N_ALLOCATIONS.get();
    for _ in 0..N_SPANS {
        observe();
    }
    // The list of the trace's spans grows by half: some 16 times up to a thousand.
    let n_allocations = N_ALLOCATIONS.get() - before;
    assert!(
        n_allocations <= 20,
        "{n_allocations} allocations for {N_SPANS} spans"
    );
}
