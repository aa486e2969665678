"""The policy sets: between them every policy type of the Collector.

Where Whyslow is meant to decide otherwise, `why` says what the Collector does instead. Such a set
is also run with `compat: collector`, and must then not differ.

Budgets are so large that they never run out, or are asked for by a single trace: what is between
depends on the instant in which a trace is decided, and can be compared by nobody.
"""

from dataclasses import dataclass, field

AMPLE = 1_000_000_000


@dataclass
class PolicySet:
    """Policies, the other keys of `tail_sampling`, and why the two may differ."""

    name: str
    policies: list
    keys: dict = field(default_factory=dict)
    why: str = ""


def policy(name, kind, **settings):
    """A policy as it stands in the file."""
    return {"name": name, "type": kind, **({kind: settings} if settings else {})}


def string(name, key, *values, **settings):
    """Of type `string_attribute`."""
    return policy(name, "string_attribute", key=key, values=list(values), **settings)


def pattern(name, key, *values, **settings):
    """Of type `string_attribute`, with patterns."""
    return string(name, key, *values, enabled_regex_matching=True, **settings)


ERRORS = policy("errors", "status_code", status_codes=["ERROR"])
SLOW = policy("slow", "latency", threshold_ms=500)
EVERYTHING = policy("everything", "always_sample")
SAMPLED_FLAG = policy("flag", "trace_flags")
ALIVE = string("alive", "http.route", "/alive")
SEVERAL = policy("several", "span_count", min_spans=2)
RARE = string("rare", "rare", "yes")
TEN_PERCENT = policy("ten", "probabilistic", sampling_percentage=10)
PROD = string("prod", "service.namespace", "prod")


def ottl(name, error_mode="ignore", **conditions):
    """Of type `ottl_condition`."""
    return policy(name, "ottl_condition", error_mode=error_mode, **conditions)


def behind(name, condition, limit):
    """A limit that only traces reach which match a condition."""
    return policy(name, "and", and_sub_policy=[condition, limit])


def _alone(n_spans):
    """Matches one trace, of so many spans."""
    return string("alone", "alone", str(n_spans))


def composite(name, max_spans, subs, order, shares):
    """Of type `composite`, with a percentage for each sub-policy."""
    return policy(
        name,
        "composite",
        max_total_spans_per_second=max_spans,
        policy_order=[sub["name"] for sub in order],
        composite_sub_policy=subs,
        rate_allocation=[{"policy": sub, "percent": percent} for sub, percent in shares.items()],
    )


SIMPLE = [
    PolicySet("always_sample", [EVERYTHING]),
    PolicySet("latency", [SLOW]),
    PolicySet(
        "latency, upper bound",
        [policy("band", "latency", threshold_ms=200, upper_threshold_ms=800)],
        why="the bounds are compared before all spans have been seen",
    ),
    PolicySet(
        "numeric, integers",
        [
            policy("5xx", "numeric_attribute", key="http.response.status_code", min_value=500),
            policy("few", "numeric_attribute", key="tier", min_value=7, max_value=7),
        ],
    ),
    PolicySet(
        "numeric, bound of 0",
        [
            policy(
                "no tokens",
                "numeric_attribute",
                key="gen_ai.usage.output_tokens",
                min_value=0,
                max_value=1,
            )
        ],
        why="a bound of 0 is none",
    ),
    PolicySet(
        "numeric, doubles",
        [
            policy(
                "late token",
                "numeric_attribute",
                key="gen_ai.latency.time_to_first_token",
                min_value=2,
            ),
            policy("three", "numeric_attribute", key="mixed", min_value=3, max_value=3),
        ],
        why="a double is 0",
    ),
    PolicySet(
        "numeric, inverted",
        [
            policy(
                "not 4xx",
                "numeric_attribute",
                key="http.response.status_code",
                min_value=200,
                max_value=399,
                invert_match=True,
            )
        ],
    ),
    PolicySet("probabilistic", [TEN_PERCENT]),
    PolicySet(
        "probabilistic, salt",
        [policy("third", "probabilistic", sampling_percentage=33.3, hash_salt="tier-2")],
    ),
    PolicySet("status_code", [ERRORS, policy("fine", "status_code", status_codes=["OK"])]),
    PolicySet("string, exact", [ALIVE, string("city", "city", "Z\u00fcrich", "")]),
    PolicySet(
        "string, patterns",
        [
            pattern("chat", "http.route", r"^/v1/chat$", r"emb.*ings"),
            pattern("gold", "tier", r"^g\w+$", cache_max_size=2),
        ],
    ),
    PolicySet(
        "string, pattern of nothing",
        [pattern("empty", "tier", "^$")],
        why="a pattern sees an empty or other value of a resource as an empty string",
    ),
    PolicySet(
        "string, inverted",
        [pattern("no probes", "http.route", "alive$", "^/health", invert_match=True)],
    ),
    PolicySet(
        "boolean, true", [policy("synthetic", "boolean_attribute", key="synthetic", value=True)]
    ),
    PolicySet(
        "boolean, false",
        [policy("natural", "boolean_attribute", key="synthetic", value=False)],
        why="what is no boolean is false",
    ),
    PolicySet("span_count", [policy("some", "span_count", min_spans=3, max_spans=5)]),
    PolicySet("trace_state", [policy("vendor", "trace_state", key="vendor", values=["a", "c"])]),
    PolicySet("trace_flags", [SAMPLED_FLAG]),
]

BUDGETS = [
    PolicySet(
        "rate_limiting",
        [policy("all", "rate_limiting", spans_per_second=AMPLE)],
    ),
    PolicySet(
        "rate_limiting, small bucket",
        [
            behind(
                "fits",
                _alone(3),
                policy("l", "rate_limiting", spans_per_second=1, burst_capacity=3),
            ),
            behind(
                "never",
                _alone(7),
                policy("l", "rate_limiting", spans_per_second=1, burst_capacity=6),
            ),
            behind("twice", _alone(6), policy("l", "rate_limiting", spans_per_second=3)),
        ],
    ),
    PolicySet("bytes_limiting", [policy("all", "bytes_limiting", bytes_per_second=1000 * AMPLE)]),
    PolicySet(
        "bytes_limiting, small bucket",
        [
            behind("fits", _alone(2), policy("l", "bytes_limiting", bytes_per_second=5_000)),
            behind("never", _alone(7), policy("l", "bytes_limiting", bytes_per_second=100)),
        ],
    ),
    PolicySet(
        "composite",
        [
            composite(
                "shares",
                AMPLE,
                [RARE, SLOW, ERRORS, policy("and", "and", and_sub_policy=[PROD, ALIVE])],
                [RARE, SLOW, ERRORS],
                {"rare": 10, "slow": 20},
            )
        ],
    ),
    PolicySet(
        "composite, order",
        # Of 100 spans a second, 1 is less than any trace has that `several` matches.
        [composite("c", 100, [SEVERAL, RARE], [RARE, SEVERAL], {"several": 1, "rare": 99})],
        why="`policy_order` is ignored",
    ),
]

COMBINED = [
    PolicySet("and", [policy("both", "and", and_sub_policy=[PROD, ERRORS, SLOW])]),
    PolicySet("not", [policy("other", "not", not_sub_policy=PROD)]),
    PolicySet(
        "drop",
        [
            policy("keep", "always_sample"),
            policy("probes", "drop", drop_sub_policy=[ALIVE, SAMPLED_FLAG]),
            policy("quick", "drop", drop_sub_policy=[policy("f", "latency", threshold_ms=2500)]),
        ],
    ),
    PolicySet(
        "ottl_condition",
        [
            ottl(
                "spans",
                span=[
                    'attributes["http.response.status_code"] == 503 and kind == SPAN_KIND_SERVER',
                    'IsMatch(attributes["city"], "^Z.*h$") and '
                    'resource.attributes["tier"] == "gold"',
                    'status.code == STATUS_CODE_ERROR and not (name == "embed")',
                    "end_time_unix_nano - start_time_unix_nano > 1900000000",
                ],
            ),
            ottl("events", spanevent=['attributes["exception.type"] == "TimeoutError"']),
        ],
    ),
    PolicySet(
        "ottl_condition, failing",
        [ottl("fails", "propagate", span=['Len(attributes["mixed"]) > 3'])],
        why="of a match and a failure the first wins",
    ),
    PolicySet(
        "in use",
        [
            ERRORS,
            SLOW,
            policy("small", "and", and_sub_policy=[TEN_PERCENT, PROD]),
            policy(
                "probes", "drop", drop_sub_policy=[pattern("p", "http.route", "^/(alive|health)$")]
            ),
        ],
        keys={"sample_on_first_match": True},
    ),
    # Whyslow counts spans alone, the Collector resources and scopes too: no trace is near this.
    PolicySet("maximum_trace_size_bytes", [EVERYTHING], keys={"maximum_trace_size_bytes": 6_000}),
    PolicySet(
        "span-ingest",
        [
            ERRORS,
            ALIVE,
            policy(
                "other", "not", not_sub_policy=pattern("n", "service.namespace", "prod|staging")
            ),
        ],
        keys={"sampling_strategy": "span-ingest"},
    ),
]

ALL = [*SIMPLE, *BUDGETS, *COMBINED]
