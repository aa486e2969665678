//! Statements over Flight SQL.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionBeginTransactionRequest,
    ActionBeginTransactionResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, CommandGetCatalogs,
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandGetXdbcTypeInfo, CommandPreparedStatementQuery, CommandPreparedStatementUpdate,
    CommandStatementIngest, CommandStatementQuery, CommandStatementUpdate,
    DoPutPreparedStatementResult, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{Action, FlightDescriptor, FlightInfo, SchemaResult, Ticket};
use datafusion::common::ScalarValue;
use tonic::{Request, Response, Status};

use super::encode::{
    Batches, as_ipc, fault, info, listed, parameter_schema, parameters, status, stream_answer,
    ticket,
};
use super::handle::Handle;
use super::names;
use crate::asker::Asker;
use crate::engine::Engine;
use crate::metrics::Entrance;
use crate::question::{Described, Question};

/// Answers statements by an engine.
#[derive(Debug)]
pub(crate) struct Sql {
    engine: Arc<Engine>,
}

fn read_only() -> Status {
    Status::invalid_argument("nothing can be changed here: only queries are answered")
}

impl Sql {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    fn question<T>(
        &self,
        sql: &str,
        parameters: Vec<ScalarValue>,
        request: &Request<T>,
    ) -> Question {
        Question {
            parameters,
            asker: request.extensions().get::<Asker>().copied(),
            entrance: Entrance::FlightSql,
            ..Question::new(sql)
        }
    }

    async fn describe<T>(&self, sql: &str, request: &Request<T>) -> Result<Described, Status> {
        let question = self.question(sql, Vec::new(), request);
        let described = self.engine.describe(question).await;
        described.map_err(|error| status(&error))
    }

    /// The columns of a query, for clients that ask for nothing else.
    pub(crate) async fn schema_of(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        let info = self.get_flight_info(request).await?.into_inner();
        Ok(Response::new(SchemaResult {
            schema: info.schema,
        }))
    }

    async fn answer(
        &self,
        handle: &Handle,
        request: &Request<Ticket>,
    ) -> Result<Response<Batches>, Status> {
        let question = self.question(&handle.sql, handle.values()?, request);
        let answer = self.engine.ask(question).await;
        Ok(stream_answer(answer.map_err(|error| status(&error))?))
    }
}

#[async_trait::async_trait]
impl FlightSqlService for Sql {
    type FlightService = Self;

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        if query.transaction_id.is_some() {
            return Err(Status::unimplemented("there are no transactions here"));
        }
        let described = self.describe(&query.query, &request).await?;
        let statement = TicketStatementQuery {
            statement_handle: Handle::new(query.query).write()?,
        };
        info(&described.schema, ticket(&statement), request)
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let handle = Handle::read(&query.prepared_statement_handle)?;
        let described = self.describe(&handle.sql, &request).await?;
        info(&described.schema, ticket(&query), request)
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let ticket = ticket(&query);
        info(&query.into_builder().schema(), ticket, request)
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let ticket = ticket(&query);
        info(&query.into_builder().schema(), ticket, request)
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let ticket = ticket(&query);
        info(&query.into_builder().schema(), ticket, request)
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let ticket = ticket(&query);
        info(&query.into_builder().schema(), ticket, request)
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let infos = names::sql_info().map_err(fault)?;
        info(&infos.schema(), ticket(&query), request)
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let types = names::types().map_err(fault)?;
        info(&types.schema(), ticket(&query), request)
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info(&names::primary_keys(), ticket(&query), request)
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info(&names::foreign_keys(), ticket(&query), request)
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info(&names::foreign_keys(), ticket(&query), request)
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        info(&names::foreign_keys(), ticket(&query), request)
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<Batches>, Status> {
        let handle = Handle::read(&ticket.statement_handle)?;
        self.answer(&handle, &request).await
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<Batches>, Status> {
        let handle = Handle::read(&query.prepared_statement_handle)?;
        self.answer(&handle, &request).await
    }

    async fn do_get_catalogs(
        &self,
        query: CommandGetCatalogs,
        _request: Request<Ticket>,
    ) -> Result<Response<Batches>, Status> {
        let mut catalogs = query.into_builder();
        catalogs.append(crate::catalog::CATALOG);
        listed(catalogs.build())
    }

    async fn do_get_schemas(
        &self,
        query: CommandGetDbSchemas,
        _request: Request<Ticket>,
    ) -> Result<Response<Batches>, Status> {
        let mut schemas = query.into_builder();
        schemas.append(crate::catalog::CATALOG, crate::catalog::SCHEMA);
        listed(schemas.build())
    }

    async fn do_get_tables(
        &self,
        query: CommandGetTables,
        _request: Request<Ticket>,
    ) -> Result<Response<Batches>, Status> {
        let tables = self.engine.tables().await;
        let tables = tables.map_err(|error| status(&error))?;
        listed(names::tables(query, &tables))
    }

    async fn do_get_table_types(
        &self,
        query: CommandGetTableTypes,
        _request: Request<Ticket>,
    ) -> Result<Response<Batches>, Status> {
        let mut types = query.into_builder();
        types.append(names::TABLE);
        types.append(names::VIEW);
        listed(types.build())
    }

    async fn do_get_sql_info(
        &self,
        query: CommandGetSqlInfo,
        _request: Request<Ticket>,
    ) -> Result<Response<Batches>, Status> {
        if query.info.len() > names::INFOS_MAX {
            return Err(Status::invalid_argument(
                "too many things are asked for at once",
            ));
        }
        let infos = names::sql_info().map_err(fault)?;
        listed(query.into_builder(&infos).build())
    }

    async fn do_get_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        _request: Request<Ticket>,
    ) -> Result<Response<Batches>, Status> {
        let types = names::types().map_err(fault)?;
        listed(query.into_builder(&types).build())
    }

    async fn do_get_primary_keys(
        &self,
        _query: CommandGetPrimaryKeys,
        _request: Request<Ticket>,
    ) -> Result<Response<Batches>, Status> {
        listed(Ok(RecordBatch::new_empty(Arc::new(names::primary_keys()))))
    }

    async fn do_get_exported_keys(
        &self,
        _query: CommandGetExportedKeys,
        _request: Request<Ticket>,
    ) -> Result<Response<Batches>, Status> {
        listed(Ok(RecordBatch::new_empty(Arc::new(names::foreign_keys()))))
    }

    async fn do_get_imported_keys(
        &self,
        _query: CommandGetImportedKeys,
        _request: Request<Ticket>,
    ) -> Result<Response<Batches>, Status> {
        listed(Ok(RecordBatch::new_empty(Arc::new(names::foreign_keys()))))
    }

    async fn do_get_cross_reference(
        &self,
        _query: CommandGetCrossReference,
        _request: Request<Ticket>,
    ) -> Result<Response<Batches>, Status> {
        listed(Ok(RecordBatch::new_empty(Arc::new(names::foreign_keys()))))
    }

    async fn do_put_statement_update(
        &self,
        _command: CommandStatementUpdate,
        _request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(read_only())
    }

    async fn do_put_statement_ingest(
        &self,
        _command: CommandStatementIngest,
        _request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(read_only())
    }

    async fn do_put_prepared_statement_update(
        &self,
        _command: CommandPreparedStatementUpdate,
        _request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(read_only())
    }

    /// Takes one row of parameters into a new handle.
    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let handle = Handle::read(&query.prepared_statement_handle)?;
        let parameters = parameters(request.into_inner()).await?;
        let bound = Handle {
            parameters,
            ..handle
        };
        bound.values()?;
        Ok(DoPutPreparedStatementResult {
            prepared_statement_handle: Some(bound.write()?),
        })
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        if query.transaction_id.is_some() {
            return Err(Status::unimplemented("there are no transactions here"));
        }
        let described = self.describe(&query.query, &request).await?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: Handle::new(query.query).write()?,
            dataset_schema: as_ipc(&described.schema)?,
            parameter_schema: as_ipc(&parameter_schema(&described.parameters))?,
        })
    }

    /// Nothing was kept.
    async fn do_action_close_prepared_statement(
        &self,
        _query: ActionClosePreparedStatementRequest,
        _request: Request<Action>,
    ) -> Result<(), Status> {
        Ok(())
    }

    async fn do_action_begin_transaction(
        &self,
        _query: ActionBeginTransactionRequest,
        _request: Request<Action>,
    ) -> Result<ActionBeginTransactionResult, Status> {
        Err(Status::unimplemented("there are no transactions here"))
    }

    async fn do_action_begin_savepoint(
        &self,
        _query: ActionBeginSavepointRequest,
        _request: Request<Action>,
    ) -> Result<ActionBeginSavepointResult, Status> {
        Err(Status::unimplemented("there are no transactions here"))
    }

    async fn register_sql_info(&self, _id: i32, _result: &SqlInfo) {}
}
