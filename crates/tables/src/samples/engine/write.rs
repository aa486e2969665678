//! Samples to batches.

use super::{EngineCounter, EngineGauge, EngineSample, SPEC};
use crate::{
    column::ColumnType,
    error::Result,
    row::{Rows, offer_rows},
    samples::whole,
    time,
};

/// Builds batches of [`SPEC`].
#[derive(Debug)]
pub struct EngineSamplesBuilder {
    rows: Rows,
}

offer_rows!(EngineSamplesBuilder);

impl EngineSamplesBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self {
            rows: Rows::new(&SPEC),
        }
    }

    /// Appends one sample.
    ///
    /// # Errors
    /// [`crate::Error::Full`] if the batch must be finished first; it is unchanged then.
    pub fn append(&mut self, sample: &EngineSample) -> Result<()> {
        self.rows.check_room()?;
        let at = sample.time_unix_nano;
        let rows = &mut self.rows;
        rows.date("date", time::partition_date(at, sample.received_unix_nano));
        rows.time("time", at);
        rows.int("time_unix_nano", time::nanos(at));
        self.append_identity(sample);
        let rows = &mut self.rows;
        for gauge in EngineGauge::ALL {
            let value = sample.gauge(*gauge);
            match gauge.data_type() {
                ColumnType::Int => rows.int(gauge.column(), value.and_then(whole)),
                _ => rows.float(gauge.column(), value),
            }
        }
        let interval_ns = sample.interval_ns.and_then(time::nanos);
        rows.int("interval_ns", interval_ns);
        for counter in EngineCounter::ALL {
            let total = sample.total(*counter).and_then(whole);
            rows.int(counter.column(), total);
            let delta = sample.delta(*counter).and_then(whole);
            rows.int(counter.delta_column(), delta);
        }
        let largest = sample.iteration_tokens_max_le.and_then(whole);
        rows.int("iteration_tokens_max_le", largest);
        let quality: Vec<String> = sample.quality.iter().map(ToString::to_string).collect();
        rows.texts("quality", Some(quality.iter().map(String::as_str)));
        rows.time("received_time", sample.received_unix_nano);
        rows.end_row();
        Ok(())
    }

    fn append_identity(&mut self, sample: &EngineSample) {
        let (rows, key, identity) = (&mut self.rows, &sample.key, &sample.identity);
        rows.text("engine", Some(key.engine.as_str()));
        rows.text("model", key.model.as_deref());
        rows.text("engine_index", key.engine_index.as_deref());
        rows.text("rank", key.rank.as_deref());
        rows.text("service_name", identity.service_name.as_deref());
        rows.text("service_instance_id", key.service_instance_id.as_deref());
        rows.text("k8s_cluster_name", identity.k8s_cluster_name.as_deref());
        rows.text("k8s_namespace_name", identity.k8s_namespace_name.as_deref());
        rows.text("k8s_pod_name", key.k8s_pod_name.as_deref());
        rows.text("k8s_pod_uid", identity.k8s_pod_uid.as_deref());
        rows.text("k8s_container_name", identity.k8s_container_name.as_deref());
        rows.text("k8s_node_name", identity.k8s_node_name.as_deref());
        rows.text("host_name", identity.host_name.as_deref());
    }
}
