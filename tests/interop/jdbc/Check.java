// What programs with the JDBC driver of Postgres ask (DBeaver, Metabase, Spark): their metadata, statements with
// parameters, reading in parts, a refused and a cancelled statement. Usage: Check.java URL PASSWORD; prints one line.

import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

class Check {
    static final String ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000) AS t(v) WHERE v % 7 = 8";

    public static void main(String[] arguments) throws Exception {
        var properties = new Properties();
        properties.setProperty("user", "me");
        properties.setProperty("password", arguments[1]);
        try (var connection = DriverManager.getConnection(arguments[0], properties)) {
            var driver = connection.getMetaData();
            int tables = metadata(driver);
            long spans = count(connection);
            parameters(connection);
            long read = inParts(connection);
            if (read != spans) throw new IllegalStateException(read + " spans read in parts, counted " + spans);
            refused(connection);
            cancelled(connection);
            if (count(connection) != spans) throw new IllegalStateException("another count after a cancelled statement");
            System.out.println(driver.getDriverName() + " " + driver.getDriverVersion() + ", "
                    + spans + " spans, " + tables + " tables and views");
        }
    }

    /** What a browser of databases shows; how many tables there are. */
    static int metadata(DatabaseMetaData told) throws SQLException {
        contains("catalogs", texts(told.getCatalogs(), "TABLE_CAT"), "whyslow");
        contains("schemas", texts(told.getSchemas(), "TABLE_SCHEM"), "public");
        contains("kinds", texts(told.getTableTypes(), "TABLE_TYPE"), "VIEW");
        contains("types", texts(told.getTypeInfo(), "TYPE_NAME"), "timestamptz");
        var tables = texts(told.getTables(null, "public", "%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME");
        contains("tables", tables, "requests");
        contains("views", tables, "slow_requests");
        contains("only views", texts(told.getTables(null, null, "slow%", new String[] {"VIEW"}), "TABLE_NAME"),
                "slow_requests");
        contains("columns", texts(told.getColumns(null, "public", "requests", "%"), "COLUMN_NAME"), "trace_id");
        try (var column = told.getColumns(null, "public", "requests", "start_time")) {
            if (!column.next()) throw new IllegalStateException("no column start_time");
            same("type of start_time", column.getInt("DATA_TYPE"), Types.TIMESTAMP);
        }
        // There are none, which must not be an error.
        texts(told.getPrimaryKeys(null, "public", "requests"), "COLUMN_NAME");
        texts(told.getIndexInfo(null, "public", "requests", false, false), "INDEX_NAME");
        texts(told.getImportedKeys(null, "public", "requests"), "FKTABLE_NAME");
        texts(told.getExportedKeys(null, "public", "requests"), "PKTABLE_NAME");
        texts(told.getFunctions(null, "public", "%"), "FUNCTION_NAME");
        texts(told.getProcedures(null, "public", "%"), "PROCEDURE_NAME");
        return tables.size();
    }

    static long count(Connection connection) throws SQLException {
        try (var statement = connection.createStatement();
                var rows = statement.executeQuery("SELECT count(*) FROM spans")) {
            rows.next();
            return rows.getLong(1);
        }
    }

    /** The driver changes from text to binary values after some executions. */
    static void parameters(Connection connection) throws SQLException {
        String traceId;
        Timestamp start;
        try (var statement = connection.createStatement();
                var rows = statement.executeQuery("SELECT trace_id, start_time FROM spans LIMIT 1")) {
            rows.next();
            traceId = rows.getString(1);
            start = rows.getTimestamp("start_time");
        }
        var text = "SELECT count(*) AS n FROM spans WHERE trace_id = ? AND start_time <= ? AND duration_ns >= ?";
        try (PreparedStatement prepared = connection.prepareStatement(text)) {
            for (int round = 0; round < 10; round++) {
                prepared.setString(1, traceId);
                prepared.setTimestamp(2, start);
                prepared.setLong(3, 0);
                try (var rows = prepared.executeQuery()) {
                    rows.next();
                    if (rows.getLong("n") < 1) throw new IllegalStateException("no span of " + traceId);
                }
            }
        }
    }

    /** With a fetch size in a transaction, the driver reads through a portal. */
    static long inParts(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        long read = 0;
        try (var statement = connection.createStatement()) {
            statement.setFetchSize(7);
            try (var rows = statement.executeQuery("SELECT span_id, duration_ns, start_time FROM spans")) {
                while (rows.next()) read++;
            }
        }
        connection.commit();
        connection.setAutoCommit(true);
        return read;
    }

    static void refused(Connection connection) throws SQLException {
        try (var statement = connection.createStatement()) {
            statement.executeUpdate("DELETE FROM spans");
        } catch (SQLException error) {
            same("code of a refused statement", error.getSQLState(), "25006");
            return;
        }
        throw new IllegalStateException("a DELETE is not refused");
    }

    static void cancelled(Connection connection) throws SQLException {
        try (var statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.executeQuery(ENDLESS);
        } catch (SQLException error) {
            same("code of a cancelled statement", error.getSQLState(), "57014");
            return;
        }
        throw new IllegalStateException("an endless statement has ended");
    }

    static List<String> texts(ResultSet rows, String column) throws SQLException {
        try (rows) {
            var texts = new ArrayList<String>();
            while (rows.next()) texts.add(rows.getString(column));
            return texts;
        }
    }

    static void contains(String what, List<String> texts, String expected) {
        if (!texts.contains(expected)) throw new IllegalStateException(what + " lack " + expected + ": " + texts);
    }

    static void same(String what, Object found, Object expected) {
        if (!found.equals(expected)) throw new IllegalStateException(what + ": " + found + ", not " + expected);
    }
}
