//! The gateway in-process on ports of its own, with a real gRPC client and a real HTTP client.
// `cfg(test)` holds for every integration test; it tells clippy that the helpers are test code as well.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod overload;
#[cfg(test)]
mod reporting;
#[cfg(test)]
mod scrape;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod tokens;
