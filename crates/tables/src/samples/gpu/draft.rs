//! Rows of one export, put together point by point.

use std::collections::HashMap;

use super::{
    GpuField, Identity, Nature, Source, Workload,
    names::{Device, Labels, Name, Target, is_sentinel},
};
use crate::samples::{
    LossReason, Losses, PointAt, ROWS_MAX,
    cells::{Cells, Put},
    quality::{Flag, Flags},
    resource::Resource,
    whole,
};

/// Most workloads of a device that are told apart.
const WORKLOADS_MAX: usize = 256;

/// Most different XIDs of a device in one scrape.
const XIDS_MAX: usize = 64;

/// The rows of an export under construction.
#[derive(Debug, Default)]
pub(in crate::samples) struct Drafts {
    pub(super) rows: Vec<Draft>,
    index: HashMap<(Device, u64), usize>,
    /// Utilisation of the present resource whose unit is not yet known.
    pending: Vec<Pending>,
    /// Did the present resource show that it has base units?
    has_base_units: bool,
}

/// A row under construction.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) device: Device,
    pub(super) time_unix_nano: u64,
    pub(super) received_unix_nano: u64,
    pub(super) source: Source,
    pub(super) identity: Identity,
    pub(super) workloads: Vec<Workload>,
    pub(super) cells: Cells<{ GpuField::ALL.len() }>,
    /// How often each XID happened.
    pub(super) xid_counts: Vec<(u32, f64)>,
    /// Did it have counts of XIDs, if only to say that there were none?
    pub(super) has_xid_counts: bool,
    pub(super) flags: Flags,
}

#[derive(Debug)]
struct Pending {
    row_idx: usize,
    value: f64,
    owner: Option<u16>,
}

impl Drafts {
    /// Puts a point where it belongs.
    pub(in crate::samples) fn add(
        &mut self,
        name: &Name,
        at: &PointAt<'_, '_>,
        resource: &Resource<'_>,
    ) -> Result<(), LossReason> {
        let target = name.target_of(at.point);
        if let Target::Lost(reason) = target {
            return Err(reason);
        }
        let labels = Labels::read(at.point);
        let device = device_of(name, &labels, resource)?;
        let value = at.number()?;
        self.has_base_units |= labels.has_base_units || name.is_base_unit;
        let mut place = Place {
            name,
            at,
            labels: &labels,
            resource,
            drafts: self,
            device,
        };
        match target {
            Target::Field(field) => place.field(field, value),
            Target::UtilEither => place.either(value),
            Target::XidCount => place.xid_count(value),
            Target::ThrottleBit(bit) => place.throttle_bit(bit, value),
            Target::Info => place.row(true).map(drop),
            Target::Ambiguous(field) => {
                let (row, _) = place.row(true)?;
                row.flags.column(field.column(), Flag::UnitAmbiguous);
                Err(LossReason::UnitAmbiguous)
            }
            Target::By(..) | Target::Lost(_) => Err(LossReason::Unmapped),
        }
    }

    /// Decides the unit of utilisation that came as percent or as a ratio: a value above 1 is
    /// percent, base units elsewhere or a fraction show a ratio. Nothing tells what 1 is.
    pub(in crate::samples) fn end_resource(&mut self, losses: &mut Losses) {
        let pending = std::mem::take(&mut self.pending);
        let has_base_units = std::mem::take(&mut self.has_base_units);
        let is_percent = pending.iter().any(|pending| pending.value > 1.0);
        let is_ratio = has_base_units || pending.iter().any(|p| p.value.fract() != 0.0);
        for Pending {
            row_idx,
            value,
            owner,
        } in pending
        {
            let row = &mut self.rows[row_idx];
            if !is_percent && !is_ratio && value != 0.0 {
                row.flags
                    .column(GpuField::UtilPct.column(), Flag::UnitAmbiguous);
                losses.add(LossReason::UnitAmbiguous, 1);
                continue;
            }
            let factor = if is_percent { 1.0 } else { 100.0 };
            let put = row
                .cells
                .put(GpuField::UtilPct as usize, value * factor, 1, owner);
            row.note(GpuField::UtilPct, put);
        }
    }
}

fn device_of(
    name: &Name,
    labels: &Labels<'_>,
    resource: &Resource<'_>,
) -> Result<Device, LossReason> {
    if labels.is_process {
        Err(LossReason::PerProcess)
    } else if labels.is_link {
        Err(LossReason::PerLink)
    } else if labels.is_other_hardware || (name.needs_hw_type && !labels.is_gpu_type()) {
        Err(LossReason::OtherHardware)
    } else {
        labels.device(resource).ok_or(LossReason::NoDevice)
    }
}

/// A point and where it goes.
struct Place<'d, 'p, 'a> {
    name: &'d Name,
    at: &'d PointAt<'p, 'a>,
    labels: &'d Labels<'a>,
    resource: &'d Resource<'a>,
    drafts: &'d mut Drafts,
    device: Device,
}

impl Place<'_, '_, '_> {
    fn field(&mut self, field: GpuField, value: f64) -> Result<(), LossReason> {
        let nature = field.nature();
        let is_mig = self.device.mig_instance.is_some();
        if is_sentinel(value, nature) {
            return Err(LossReason::Sentinel);
        }
        if is_mig && nature == Nature::Percent {
            return Err(LossReason::NotInMig);
        }
        // Boards without a sensor print 0.
        if field == GpuField::MemTempC && value == 0.0 {
            return Err(LossReason::Sentinel);
        }
        let (factor, rank) = (self.name.factor, self.name.rank);
        let (is_by_suffix, is_delta) = (self.name.is_by_suffix, self.at.is_delta);
        let (row, owner) = self.row(nature.is_per_instance())?;
        let column = field.column();
        if is_delta {
            row.flags.column(column, Flag::DeltaTemporality);
            return Err(LossReason::DeltaTemporality);
        }
        let value = value * factor;
        if !nature.allows(value) {
            row.flags.column(column, Flag::OutOfRange);
            return Err(LossReason::OutOfRange);
        }
        let put = row.cells.put(field as usize, value, rank, owner);
        row.note(field, put);
        if is_by_suffix && put == Put::Stored {
            row.flags.column(column, Flag::UnitBySuffix);
        }
        Ok(())
    }

    /// Utilisation whose unit is decided at the end of the resource.
    fn either(&mut self, value: f64) -> Result<(), LossReason> {
        if is_sentinel(value, Nature::Percent) {
            return Err(LossReason::Sentinel);
        }
        if self.device.mig_instance.is_some() {
            return Err(LossReason::NotInMig);
        }
        if !(0.0..=100.0).contains(&value) {
            let (row, _) = self.row(true)?;
            row.flags
                .column(GpuField::UtilPct.column(), Flag::OutOfRange);
            return Err(LossReason::OutOfRange);
        }
        let row_idx = self.row_idx(true)?;
        let owner = self.owner(row_idx);
        self.drafts.pending.push(Pending {
            row_idx,
            value,
            owner,
        });
        Ok(())
    }

    fn xid_count(&mut self, value: f64) -> Result<(), LossReason> {
        let xid = self.labels.xid.map(str::parse::<u32>);
        let (row, _) = self.row(false)?;
        row.has_xid_counts = true;
        match xid {
            Some(Ok(xid)) if value >= 0.0 => {
                let counts = &mut row.xid_counts;
                if let Some((_, count)) = counts.iter_mut().find(|(known, _)| *known == xid) {
                    *count = count.max(value);
                } else if counts.len() < XIDS_MAX {
                    counts.push((xid, value));
                } else {
                    return Err(LossReason::OutOfRange);
                }
                Ok(())
            }
            // A row without a code says that there were none.
            None => Ok(()),
            _ => Err(LossReason::OutOfRange),
        }
    }

    fn throttle_bit(&mut self, bit: u32, value: f64) -> Result<(), LossReason> {
        // A mask of all reasons is better: it has bits without a name too.
        const RANK: u8 = u8::MAX - 1;
        let idx = GpuField::ThrottleMask as usize;
        let (row, _) = self.row(false)?;
        if row.cells.rank(idx) < RANK {
            return Ok(());
        }
        let before = row.cells.value(idx).and_then(whole).unwrap_or(0);
        let mask = if value > 0.0 {
            before | i64::from(bit)
        } else {
            before
        };
        #[expect(clippy::cast_precision_loss, reason = "nine bits")]
        row.cells.replace(idx, mask as f64, RANK);
        Ok(())
    }

    /// The row that the value belongs to, and the workload that its line names.
    fn row(&mut self, is_per_instance: bool) -> Result<(&mut Draft, Option<u16>), LossReason> {
        let row_idx = self.row_idx(is_per_instance)?;
        let owner = self.owner(row_idx);
        Ok((&mut self.drafts.rows[row_idx], owner))
    }

    fn row_idx(&mut self, is_per_instance: bool) -> Result<usize, LossReason> {
        let mut device = self.device.clone();
        if !is_per_instance {
            device.mig_instance = None;
        }
        let key = (device, self.at.time_unix_nano);
        if let Some(row_idx) = self.drafts.index.get(&key) {
            let row = &mut self.drafts.rows[*row_idx];
            row.describe(self.labels, self.resource);
            return Ok(*row_idx);
        }
        let row_idx = self.drafts.rows.len();
        if row_idx >= ROWS_MAX {
            return Err(LossReason::TooManyRows);
        }
        let mut row = Draft::new(key.0.clone(), self.at, self.name.source);
        row.describe(self.labels, self.resource);
        self.drafts.rows.push(row);
        self.drafts.index.insert(key, row_idx);
        Ok(row_idx)
    }

    fn owner(&mut self, row_idx: usize) -> Option<u16> {
        let row = &mut self.drafts.rows[row_idx];
        // On the board's row, the pods of its instances mean nothing.
        if row.device.mig_instance != self.device.mig_instance {
            return None;
        }
        let workload = self.labels.workload(self.resource)?;
        let known = row.workloads.iter().position(|known| *known == workload);
        let idx = match known {
            Some(idx) => idx,
            None if row.workloads.len() < WORKLOADS_MAX => {
                row.workloads.push(workload);
                row.workloads.len() - 1
            }
            None => WORKLOADS_MAX,
        };
        u16::try_from(idx).ok()
    }
}

impl Draft {
    fn new(device: Device, at: &PointAt<'_, '_>, source: Source) -> Self {
        let mut flags = Flags::default();
        if at.is_time_replaced {
            flags.row(Flag::TimeFromReceipt);
        }
        Self {
            device,
            time_unix_nano: at.time_unix_nano,
            received_unix_nano: at.received_unix_nano,
            source,
            identity: Identity::default(),
            workloads: Vec::new(),
            cells: Cells::default(),
            xid_counts: Vec::new(),
            has_xid_counts: false,
            flags,
        }
    }

    /// Takes from the labels what is not known yet.
    fn describe(&mut self, labels: &Labels<'_>, resource: &Resource<'_>) {
        let identity = &mut self.identity;
        let fill = |slot: &mut Option<String>, text: Option<&str>| {
            if slot.is_none() {
                *slot = text.map(str::to_owned);
            }
        };
        if self.device.mig_instance.is_some() {
            fill(&mut identity.mig_uuid, labels.mig_uuid);
            fill(&mut identity.mig_profile, labels.mig_profile);
        }
        fill(&mut identity.gpu_model, labels.model.or(resource.gpu_model));
        fill(&mut identity.gpu_index, labels.index);
        fill(&mut identity.device_file, labels.device_file);
        fill(&mut identity.claim_device, labels.claim_device().as_deref());
        fill(&mut identity.pci_bus_id, labels.pci_bus_id);
        fill(&mut identity.driver_version, labels.driver_version);
        fill(&mut identity.k8s_cluster_name, resource.k8s_cluster_name);
        fill(
            &mut identity.k8s_node_name,
            resource.k8s_node_name.or(labels.node),
        );
        fill(
            &mut identity.host_name,
            labels.host(resource).or(resource.host_name),
        );
        fill(
            &mut identity.service_name,
            resource.service_name.or(labels.job),
        );
        fill(
            &mut identity.service_instance_id,
            resource.service_instance_id.or(labels.instance),
        );
    }

    /// Marks what `put` found.
    fn note(&mut self, field: GpuField, put: Put) {
        match put {
            Put::Stored | Put::Worse => {}
            Put::Differs => self.flags.column(field.column(), Flag::Conflict),
            Put::Parts => self.flags.column(field.column(), Flag::PerPodValues),
        }
    }
}
