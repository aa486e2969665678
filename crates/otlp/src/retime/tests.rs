//! Tests of retime.
