//! Tests of attribute reading.
