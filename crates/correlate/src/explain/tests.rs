//! Explanations of requests of the simulated fleet against the truth, and of what is written down by hand.

mod fleet;
