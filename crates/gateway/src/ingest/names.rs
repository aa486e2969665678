//! Names that the sampler keeps by number, as shared text: each is copied once, not once per trace.

use std::{collections::HashMap, sync::Arc};

use rustc_hash::FxBuildHasher;
use sampler::{PolicyIndex, Sampler, ServiceId};

/// Names given out before.
#[derive(Debug, Default)]
pub(super) struct Names {
    policies: HashMap<PolicyIndex, Arc<str>, FxBuildHasher>,
    services: HashMap<ServiceId, Arc<str>, FxBuildHasher>,
}

impl Names {
    pub(super) fn policy(
        &mut self,
        sampler: &Sampler,
        policy: Option<PolicyIndex>,
    ) -> Option<Arc<str>> {
        let policy = policy?;
        let name = self
            .policies
            .entry(policy)
            .or_insert_with(|| sampler.policy_name(policy).into());
        Some(Arc::clone(name))
    }

    pub(super) fn service(&mut self, sampler: &Sampler, service: ServiceId) -> Arc<str> {
        let name = self
            .services
            .entry(service)
            .or_insert_with(|| sampler.service_name(service).into());
        Arc::clone(name)
    }
}
