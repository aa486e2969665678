//! Policies for measuring: five that are usual, ten, and as many as wanted.

/// Of any configuration that is measured.
pub const POLICIES_MAX: usize = 100;

const POLICIES: [&str; 10] = [
    "{name: errors, type: status_code, status_code: {status_codes: [ERROR]}}",
    "{name: slow, type: latency, latency: {threshold_ms: 5000}}",
    "{name: ttft, type: numeric_attribute, numeric_attribute: \
     {key: gen_ai.latency.time_to_first_token_ms, min_value: 2000}}",
    "{name: tenant, type: string_attribute, string_attribute: {key: tenant, values: [canary]}}",
    "{name: rest, type: probabilistic, probabilistic: {sampling_percentage: 5}}",
    "{name: long, type: numeric_attribute, numeric_attribute: \
     {key: gen_ai.usage.prompt_tokens, min_value: 100000}}",
    "{name: fallback, type: boolean_attribute, boolean_attribute: {key: app.fallback, value: true}}",
    "{name: old-model, type: string_attribute, string_attribute: \
     {key: gen_ai.request.model, values: ['^llama-2', '-preview$'], enabled_regex_matching: true}}",
    "{name: large, type: span_count, span_count: {min_spans: 100}}",
    "{name: slow-search, type: and, and: {and_sub_policy: [\
     {name: slow, type: latency, latency: {threshold_ms: 1000}}, \
     {name: search, type: string_attribute, \
      string_attribute: {key: gen_ai.operation.name, values: [embeddings]}}]}}",
];

/// A `tail_sampling` section with the first `n_policies` policies, in YAML; beyond ten each has one condition on a key that
/// no span has. The first reads no attribute.
///
/// # Errors
/// More than [`POLICIES_MAX`].
pub fn tail_sampling(n_policies: usize) -> Result<String, String> {
    if n_policies > POLICIES_MAX {
        return Err(format!(
            "{n_policies} policies are more than {POLICIES_MAX}"
        ));
    }
    let more = (POLICIES.len()..n_policies).map(|idx| {
        format!(
            "{{name: score-{idx}, type: numeric_attribute, \
             numeric_attribute: {{key: app.score.{idx}, min_value: 1}}}}"
        )
    });
    let written = POLICIES
        .iter()
        .take(n_policies)
        .map(|policy| (*policy).to_owned());
    let policies: Vec<String> = written.chain(more).collect();
    let policies = policies.join(", ");
    Ok(format!(
        "{{decision_wait: 2s, num_traces: 1000000, policies: [{policies}]}}"
    ))
}
