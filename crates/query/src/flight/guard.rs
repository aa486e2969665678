//! Who may call: a token with every call, whatever it asks for.
//!
//! It stands in front of the whole service, so that a call that is added there is behind it. The handshake lets a
//! client that knows only names and passwords learn the header to send: the password is the token.

use std::sync::Arc;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, Result as ActionResult, SchemaResult,
    Ticket,
};
use async_trait::async_trait;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use transport::{TokenCheck, Unauthenticated};

use super::Peer;
use super::service::Sql;
use crate::asker::Asker;
use crate::metrics::Connections;

type Answers<T> = BoxStream<'static, Result<T, Status>>;

/// The service behind the check.
pub(crate) struct Guarded {
    inner: Sql,
    tokens: Option<Arc<TokenCheck>>,
    connections: Arc<Connections>,
}

impl Guarded {
    pub(crate) fn new(
        inner: Sql,
        tokens: Option<Arc<TokenCheck>>,
        connections: Arc<Connections>,
    ) -> Self {
        Self {
            inner,
            tokens,
            connections,
        }
    }

    /// Notes who asks, or refuses the call.
    fn check<T>(&self, mut request: Request<T>) -> Result<Request<T>, Status> {
        let asker = match &self.tokens {
            None => request
                .extensions()
                .get::<Peer>()
                .map(|peer| Asker::Address(peer.0.ip())),
            Some(tokens) => {
                let token = tokens.check(request.metadata().as_ref());
                Some(Asker::Token(token.map_err(|why| self.refuse(why))?))
            }
        };
        if let Some(asker) = asker {
            request.extensions_mut().insert(asker);
        }
        Ok(request)
    }

    fn refuse(&self, why: Unauthenticated) -> Status {
        self.connections.unauthenticated();
        Status::unauthenticated(why.to_string())
    }
}

/// Clients in Go leave out what fills the last group.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The password of `Basic` credentials.
fn password(value: &[u8]) -> Option<String> {
    let (scheme, rest) = value.split_at_checked("Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let pair = BASE64.decode(rest.trim_ascii()).ok()?;
    let pair = String::from_utf8(pair).ok()?;
    pair.split_once(':')
        .map(|(_user, password)| password.to_owned())
}

#[async_trait]
impl FlightService for Guarded {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type DoActionStream = Answers<ActionResult>;
    type ListActionsStream = Answers<ActionType>;
    type DoExchangeStream = Answers<FlightData>;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let Some(tokens) = &self.tokens else {
            let answer = HandshakeResponse::default();
            return Ok(Response::new(stream::iter([Ok(answer)]).boxed()));
        };
        let given = request.metadata().get("authorization");
        let given = given.and_then(|value| password(value.as_bytes()));
        let token = given.ok_or_else(|| self.refuse(Unauthenticated::Missing))?;
        let checked = tokens.check_token(token.as_bytes());
        checked.map_err(|why| self.refuse(why))?;
        let header = tokens.header_of(&token);
        let (name, value) = header.ok_or_else(|| self.refuse(Unauthenticated::Malformed))?;
        let answer = HandshakeResponse {
            protocol_version: 0,
            payload: Bytes::from(token),
        };
        let mut response = Response::new(stream::iter([Ok(answer)]).boxed());
        response.metadata_mut().as_mut().insert(name, value);
        Ok(response)
    }

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        let answer = self.inner.list_flights(self.check(request)?).await?;
        Ok(answer.map(StreamExt::boxed))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.inner.get_flight_info(self.check(request)?).await
    }

    async fn poll_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        self.inner.poll_flight_info(self.check(request)?).await
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        self.inner.schema_of(self.check(request)?).await
    }

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        let answer = self.inner.do_get(self.check(request)?).await?;
        Ok(answer.map(StreamExt::boxed))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let answer = self.inner.do_put(self.check(request)?).await?;
        Ok(answer.map(StreamExt::boxed))
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        let answer = self.inner.do_action(self.check(request)?).await?;
        Ok(answer.map(StreamExt::boxed))
    }

    async fn list_actions(
        &self,
        request: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        let answer = self.inner.list_actions(self.check(request)?).await?;
        Ok(answer.map(StreamExt::boxed))
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        let answer = self.inner.do_exchange(self.check(request)?).await?;
        Ok(answer.map(StreamExt::boxed))
    }
}

#[cfg(test)]
mod tests {
    use super::password;

    #[test]
    fn a_password_is_found_with_and_without_filling() {
        for (value, expected) in [
            ("Basic bWU6dG9rZW4=", Some("token")),
            ("basic bWU6dG9rZW4", Some("token")),
            ("Basic bWU6YTpi", Some("a:b")),
            ("Basic !", None),
            ("Bearer bWU6dG9rZW4=", None),
            ("", None),
        ] {
            assert_eq!(password(value.as_bytes()).as_deref(), expected, "{value}");
        }
    }
}
