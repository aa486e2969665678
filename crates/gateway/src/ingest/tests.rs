//! The core on a simulated disk with given time.

mod carry;
mod crash;
mod damage;
mod duplicates;
mod harness;
mod overload;
mod pressure;
mod route;
mod sync;
