//! Tests of reply.
