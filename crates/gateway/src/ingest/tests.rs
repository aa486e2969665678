//! The core on a simulated disk with given time.

mod carry;
mod crash;
mod damage;
mod duplicates;
mod exporting;
mod harness;
mod links;
mod overload;
mod pressure;
mod reload;
mod reported;
mod route;
mod side_lane;
mod streams;
mod sync;
mod thresholds;
