//! Service names, each stored once.

use std::collections::HashMap;

use crate::keyed_hash::KeyedState;

/// Distinct service names that are told apart. Real systems have hundreds; a sender that puts
/// something unique into `service.name` must not fill the memory.
pub const SERVICES_MAX: usize = 16_384;

/// Bytes of a service name that are kept.
const NAME_BYTES_MAX: usize = 255;

/// The name of all services beyond [`SERVICES_MAX`].
const OTHER: &str = "(other)";

/// A service name; [`crate::Sampler::service_name`] gives the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId(u16);

/// All names seen.
#[derive(Debug)]
pub(crate) struct Services {
    names: Vec<Box<str>>,
    by_name: HashMap<Box<str>, ServiceId, KeyedState>,
    /// Bytes of the names, each held twice.
    text_bytes: usize,
}

impl Services {
    pub(crate) fn new() -> Self {
        Self {
            names: vec![OTHER.into()],
            by_name: HashMap::with_hasher(KeyedState::new()),
            text_bytes: 0,
        }
    }

    pub(crate) fn intern(&mut self, name: &str) -> ServiceId {
        let name = cut(name);
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = match u16::try_from(self.names.len()) {
            Ok(id) if self.names.len() <= SERVICES_MAX => ServiceId(id),
            Ok(_) | Err(_) => return ServiceId(0),
        };
        self.text_bytes += 2 * name.len();
        self.names.push(name.into());
        self.by_name.insert(name.into(), id);
        id
    }

    pub(crate) fn name(&self, id: ServiceId) -> &str {
        self.names
            .get(usize::from(id.0))
            .map_or(OTHER, AsRef::as_ref)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.text_bytes
            + self.names.capacity() * size_of::<Box<str>>()
            + self.by_name.capacity() * size_of::<(Box<str>, ServiceId)>()
    }
}

fn cut(name: &str) -> &str {
    name.split_at_checked(name.floor_char_boundary(NAME_BYTES_MAX))
        .map_or(name, |(kept, _)| kept)
}

#[cfg(test)]
mod tests {
    use super::{SERVICES_MAX, Services};

    #[test]
    fn names_beyond_the_limit_are_one_other_service() {
        let mut services = Services::new();
        let vllm = services.intern("vllm");
        for n in 0..SERVICES_MAX + 10 {
            services.intern(&n.to_string());
        }
        assert_eq!(services.intern("vllm"), vllm);
        assert_eq!(services.name(vllm), "vllm");
        let beyond = services.intern("one more");
        assert_eq!(services.name(beyond), "(other)");
    }

    #[test]
    fn a_long_name_is_cut_at_a_character() {
        let mut services = Services::new();
        let id = services.intern(&format!("a{}", "\u{20ac}".repeat(200)));
        assert_eq!(services.name(id).len(), 253);
    }
}
