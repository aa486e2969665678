//! Tests of attribute.
