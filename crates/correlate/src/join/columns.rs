//! The columns of `evidence`, each computed for all pairs at once.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{
        ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, ListBuilder, RecordBatch,
        StringArray, StringBuilder, TimestampMicrosecondArray,
    },
    datatypes::{DataType, Field},
};
use tables::evidence::SPEC;

use super::{
    KeptRequest, measured,
    pairs::{Pair, Pairs},
};
use crate::throttle;

pub(super) const NANOS_PER_SECOND: f64 = 1e9;
const NANOS_PER_MINUTE: i64 = 60_000_000_000;
const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// Columns by name, put into the order of the table at the end.
pub(super) struct Named(HashMap<&'static str, ArrayRef>);

impl Named {
    pub(super) fn put(&mut self, name: &'static str, column: impl arrow::array::Array + 'static) {
        self.0.insert(name, Arc::new(column));
    }

    pub(super) fn floats(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = Option<f64>>,
    ) {
        self.put(name, Float64Array::from_iter(values));
    }

    pub(super) fn ints(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = Option<i64>>,
    ) {
        self.put(name, Int64Array::from_iter(values));
    }

    fn texts<'a>(&mut self, name: &'static str, values: impl IntoIterator<Item = Option<&'a str>>) {
        self.put(name, StringArray::from_iter(values));
    }

    pub(super) fn bools(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = Option<bool>>,
    ) {
        self.put(name, BooleanArray::from_iter(values));
    }

    fn finish(mut self) -> RecordBatch {
        let schema = SPEC.schema();
        let columns = SPEC
            .columns
            .iter()
            .filter_map(|column| self.0.remove(column.name))
            .collect();
        #[expect(
            clippy::expect_used,
            reason = "a test builds a batch of every kind of row: names and types are those of the table"
        )]
        let batch = RecordBatch::try_new(schema, columns).expect("columns match the table");
        batch
    }
}

/// Rows of `evidence`.
pub(super) fn build(requests: &[KeptRequest], pairs: &Pairs<'_>, revision: i64) -> RecordBatch {
    let mut named = Named(HashMap::with_capacity(SPEC.columns.len()));
    put_keys(&mut named, requests, pairs);
    put_placement(&mut named, pairs);
    put_method(&mut named, pairs);
    let throttle = measured::put(&mut named, requests.len(), pairs);
    put_lists(&mut named, pairs, &throttle);
    put_company(&mut named, requests, pairs, revision);
    named.finish()
}

fn put_keys(named: &mut Named, requests: &[KeptRequest], pairs: &Pairs<'_>) {
    let request = |pair: &Pair<'_>| &requests[pair.request];
    let rows = &pairs.rows;
    named.put(
        "date",
        Date32Array::from_iter_values(rows.iter().map(|pair| {
            i32::try_from(request(pair).start_unix_nano.div_euclid(NANOS_PER_DAY))
                .unwrap_or_default()
        })),
    );
    named.put(
        "trace_id",
        ids(requests, rows, |request| request.trace_id.to_string()),
    );
    named.put(
        "span_id",
        ids(requests, rows, |request| request.span_id.to_string()),
    );
    named.texts(
        "k8s_pod_name",
        rows.iter().map(|pair| request(pair).pod.name.as_deref()),
    );
    named.texts(
        "k8s_node_name",
        rows.iter().map(|pair| {
            let placed = pair
                .placement
                .and_then(|placement| placement.node.as_deref());
            request(pair).node.as_deref().or(placed)
        }),
    );
    let starts = rows.iter().map(|pair| Some(pair.start.div_euclid(1_000)));
    named.put(
        "start_time",
        TimestampMicrosecondArray::from_iter(starts).with_timezone("UTC"),
    );
    named.put(
        "start_time_unix_nano",
        Int64Array::from_iter_values(rows.iter().map(|pair| pair.start)),
    );
    named.put(
        "duration_ns",
        Int64Array::from_iter_values(rows.iter().map(|pair| pair.end - pair.start)),
    );
}

/// An id of each row's request, spelled once for the rows of one request.
fn ids(
    requests: &[KeptRequest],
    rows: &[Pair<'_>],
    spell: impl Fn(&KeptRequest) -> String,
) -> StringArray {
    let mut ids = StringBuilder::with_capacity(rows.len(), rows.len() * 32);
    for of_request in rows.chunk_by(|one, other| one.request == other.request) {
        let id = spell(&requests[of_request[0].request]);
        of_request.iter().for_each(|_| ids.append_value(&id));
    }
    ids.finish()
}

fn put_placement(named: &mut Named, pairs: &Pairs<'_>) {
    let rows = &pairs.rows;
    let placements = || rows.iter().map(|pair| pair.placement);
    named.texts(
        "gpu_uuid",
        placements().map(|placement| Some(placement?.device.uuid())),
    );
    let mig: Vec<Option<String>> = placements()
        .map(|placement| Some(placement?.device.mig_instance()?.to_string()))
        .collect();
    named.texts("mig_instance", mig.iter().map(Option::as_deref));
    named.ints("dp_rank", placements().map(|placement| placement?.ranks.dp));
    named.ints("pp_rank", placements().map(|placement| placement?.ranks.pp));
    named.ints("tp_rank", placements().map(|placement| placement?.ranks.tp));
    named.texts(
        "placement_source",
        placements().map(|placement| Some(placement?.source.as_str())),
    );
    named.bools(
        "placement_disputed",
        rows.iter()
            .map(|pair| pair.placement.map(|_| pair.is_disputed)),
    );
    named.put(
        "attribution",
        StringArray::from_iter_values(rows.iter().map(|pair| pair.attribution.as_str())),
    );
    named.texts(
        "missing_link",
        rows.iter().map(|pair| Some(pair.missing?.as_str())),
    );
}

fn put_method(named: &mut Named, pairs: &Pairs<'_>) {
    let rows = &pairs.rows;
    let sampled = |pair: &&Pair<'_>| !pair.place.is_empty();
    named.texts(
        "method",
        rows.iter().map(|pair| {
            Some(pair).filter(sampled).map(|pair| {
                if pair.place.away.is_some() {
                    "nearest"
                } else {
                    "within"
                }
            })
        }),
    );
    named.floats(
        "nearest_sample_s",
        rows.iter()
            .map(|pair| Some(pair.place.away? as f64 / NANOS_PER_SECOND)),
    );
    named.ints(
        "sample_count",
        rows.iter().map(|pair| {
            pair.series?;
            let within = if pair.place.away.is_some() {
                0
            } else {
                pair.place.to - pair.place.from
            };
            i64::try_from(within).ok()
        }),
    );
    named.floats("coverage", rows.iter().map(|pair| pair.coverage));
    named.texts(
        "resolution",
        rows.iter().map(|pair| {
            let is_coarse = pair.series?.interval() > pair.end - pair.start;
            is_coarse.then_some("window_larger_than_request")
        }),
    );
    named.floats(
        "sample_interval_s",
        rows.iter().map(|pair| {
            Some(pair.series?.interval())
                .filter(|interval| *interval > 0)
                .map(|interval| interval as f64 / NANOS_PER_SECOND)
        }),
    );
}

/// A list builder whose items are named and typed as in the table.
fn texts() -> ListBuilder<StringBuilder> {
    ListBuilder::new(StringBuilder::new()).with_field(Field::new("element", DataType::Utf8, true))
}

/// `throttle` are the masks of the rows.
fn put_lists(named: &mut Named, pairs: &Pairs<'_>, throttle: &[Option<u64>]) {
    let (mut reasons, mut xids, mut before) = (texts(), texts(), texts());
    for (pair, mask) in pairs.rows.iter().zip(throttle) {
        let Some(series) = pair.series else {
            reasons.append_null();
            xids.append_null();
            before.append_null();
            continue;
        };
        match mask {
            Some(mask) => {
                throttle::reasons(*mask).for_each(|reason| reasons.values().append_value(reason));
                reasons.append(true);
            }
            None => reasons.append_null(),
        }
        for xid in series.xids(pair.start, pair.end) {
            xids.values().append_value(xid.code.to_string());
        }
        xids.append(true);
        // Those within are not there again.
        let minute = pair.start.saturating_sub(NANOS_PER_MINUTE);
        for xid in series.xids(minute, pair.start) {
            if xid.until <= pair.start {
                before.values().append_value(xid.code.to_string());
            }
        }
        before.append(true);
    }
    named.put("throttle_reasons", reasons.finish());
    named.put("xids", xids.finish());
    named.put("xids_before", before.finish());
}

fn put_company(named: &mut Named, requests: &[KeptRequest], pairs: &Pairs<'_>, revision: i64) {
    let rows = &pairs.rows;
    let count = |count: usize| i64::try_from(count).ok();
    named.ints(
        "other_request_count",
        rows.iter()
            .map(|pair| pair.n_other_requests.and_then(count)),
    );
    named.ints(
        "other_pod_count",
        rows.iter()
            .map(|pair| pair.placement.and_then(|_| count(pair.n_other_pods))),
    );
    // Where no device is known there is nothing to wait for.
    named.bools(
        "complete",
        rows.iter().map(|pair| {
            let end = requests[pair.request].end_unix_nano;
            Some(
                pair.placement.is_none()
                    || pair
                        .series
                        .is_some_and(|series| series.last_time() >= Some(end)),
            )
        }),
    );
    named.put(
        "revision",
        Int64Array::from_iter_values(std::iter::repeat_n(revision, rows.len())),
    );
}
