//! Tests over real folders, through the public operations.

mod exactly_once;
mod faults;
mod faulty_store;
mod files;
mod fixture;
mod opening;
mod places;
mod views;
