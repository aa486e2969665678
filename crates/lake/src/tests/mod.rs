//! Tests over real folders, through the public operations.

mod exactly_once;
mod faults;
mod faulty_store;
mod files;
mod fixture;
mod maintain;
mod maintain_crashes;
mod opening;
mod places;
mod recent;
mod uniform;
mod views;
mod writers_and_compactor;
