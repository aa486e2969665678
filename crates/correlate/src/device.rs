//! Naming a device: one GPU or one MIG instance, by UUID and never by index.

use std::sync::Arc;

use tables::samples::gpu::canonical_device;

/// Fewer digits are an index, which names a GPU only for a while and only on its node.
const UUID_DIGITS_MIN: usize = 8;

/// A GPU, or a MIG instance of it. Indices are not part of it: they change with reboots and differ between the
/// driver, CUDA and the exporter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// `GPU-` or `MIG-` and lower-case hex.
    uuid: Arc<str>,
    /// GPU instance id of a MIG instance whose UUID is that of its GPU.
    mig_instance: Option<u32>,
}

impl Device {
    /// Takes an id in any of the forms that `gpu_samples` knows ([`canonical_device`]), so that samples and
    /// placements name a device alike. `None` for an id that is no UUID.
    #[must_use]
    pub fn parse(text: &str, mig_instance: Option<u32>) -> Option<Self> {
        let (uuid, named) = canonical_device(text)?;
        let hex = ["GPU-", "MIG-"]
            .iter()
            .find_map(|prefix| uuid.strip_prefix(prefix))?;
        let n_digits = hex.bytes().filter(u8::is_ascii_hexdigit).count();
        let is_uuid = hex
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if !is_uuid || n_digits < UUID_DIGITS_MIN {
            return None;
        }
        Some(Self {
            uuid: uuid.into(),
            mig_instance: mig_instance.or_else(|| named?.parse().ok()),
        })
    }

    /// Its UUID, or that of its GPU where it is a MIG instance known by number.
    #[must_use]
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// GPU instance id of a MIG instance.
    #[must_use]
    pub const fn mig_instance(&self) -> Option<u32> {
        self.mig_instance
    }
}

#[cfg(test)]
mod tests {
    use super::Device;

    #[test]
    fn every_spelling_of_a_uuid_is_one_device() {
        let uuid = "GPU-0a1b2c3d-0001-4000-8000-000000000001";
        for spelling in [
            uuid,
            "gpu-0A1B2C3D-0001-4000-8000-000000000001",
            "0a1b2c3d-0001-4000-8000-000000000001",
            "GPU-0a1b2c3d-0001-4000-8000-000000000001::1",
            " GPU-0a1b2c3d-0001-4000-8000-000000000001 ",
        ] {
            assert_eq!(Device::parse(spelling, None).expect(spelling).uuid(), uuid);
        }
        assert_eq!(
            Device::parse("mig-0A1B2C3D", None)
                .expect("a device")
                .uuid(),
            "MIG-0a1b2c3d"
        );
    }

    #[test]
    fn what_is_no_uuid_names_no_device() {
        for text in [
            "",
            "0",
            "12",
            "GPU-",
            "GPU-7",
            "0/gi1",
            "nvidia0",
            "<<<NULL>>>",
            "GPU-xyz",
            "---",
            "::1",
        ] {
            assert_eq!(Device::parse(text, None), None, "{text}");
        }
    }
}
