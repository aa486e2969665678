//! The core on a simulated disk with given time.

mod carry;
mod crash;
mod damage;
mod duplicates;
mod exporting;
mod harness;
mod pressure;
mod reload;
mod route;
mod sync;
