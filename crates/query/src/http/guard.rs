//! The check of tokens in front of routes, by the heads of requests alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::WWW_AUTHENTICATE;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use transport::TokenCheck;

use super::refusal::{ProblemBody, problem};
use crate::asker::Asker;

/// Asks each request of these routes for a token.
pub fn guarded(routes: Router, guard: Arc<Guard>) -> Router {
    routes.route_layer(middleware::from_fn_with_state(guard, let_in))
}

/// The check of requests, with its count.
#[derive(Debug)]
pub struct Guard {
    tokens: Arc<TokenCheck>,
    n_refused: AtomicU64,
}

impl Guard {
    /// Takes the tokens that are known.
    pub fn new(tokens: Arc<TokenCheck>) -> Self {
        Self {
            tokens,
            n_refused: AtomicU64::new(0),
        }
    }

    /// Requests that had no known token.
    pub fn n_refused(&self) -> u64 {
        self.n_refused.load(Ordering::Relaxed)
    }
}

async fn let_in(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    let why = match guard.tokens.check(request.headers()) {
        Ok(token) => {
            request.extensions_mut().insert(Asker::Token(token));
            return next.run(request).await;
        }
        Err(why) => why,
    };
    guard.n_refused.fetch_add(1, Ordering::Relaxed);
    let body = axum::Json(ProblemBody {
        error: problem("unauthenticated", &why),
    });
    let challenge = [(WWW_AUTHENTICATE, guard.tokens.challenge())];
    (StatusCode::UNAUTHORIZED, challenge, body).into_response()
}
