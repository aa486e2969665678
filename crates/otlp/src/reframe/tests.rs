//! Tests of reframe.
