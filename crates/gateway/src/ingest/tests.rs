//! The core on a simulated disk with given time.

mod crash;
mod harness;
mod route;
