import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Instant;

/** What the participant remembers: outcomes per effect id, answers per command id, its bookings. */
final class Journal implements AutoCloseable {
    private static final String TABLES = """
            create table if not exists effect (
                effect_id uuid primary key,
                state text not null default 'NONE', -- NONE, SUCCEEDED, REJECTED, FENCED
                reason text, output text, halt text, halt_operation text
            );
            create table if not exists answer (
                command_id uuid primary key, status text not null, terminal text, reason text,
                output text, answered_at timestamptz not null
            );
            create table if not exists booking (
                ticket bigint generated always as identity, effect_id uuid not null, seat text not null
            );
            """;
    private final Connection connection;

    Journal(String url) throws SQLException {
        connection = DriverManager.getConnection(url);
        try (var statement = connection.createStatement()) {
            statement.execute(TABLES);
        }
        connection.setAutoCommit(false);
    }

    /** What became of an effect. */
    record Effect(String id, String state, String reason, String output, String halt, String operation) {
        boolean is(String other) {
            return state.equals(other);
        }
    }

    /** An answer that was given, and when: a repeat is the same event. */
    record Given(Wire.Answer answer, Instant at) {}

    /** Create an effect's row if need be and lock it: the row of EXECUTE locks its activation. */
    Effect lock(String id) throws SQLException {
        update("insert into effect (effect_id) values (?::uuid) on conflict do nothing", id);
        try (PreparedStatement query = connection.prepareStatement("select state, reason, output, halt, "
                + "halt_operation from effect where effect_id = ?::uuid for update")) {
            query.setString(1, id);
            ResultSet row = query.executeQuery();
            row.next();
            return new Effect(id, row.getString(1), row.getString(2), row.getString(3), row.getString(4),
                    row.getString(5));
        }
    }

    void save(String id, String state, String reason, String output) throws SQLException {
        update("update effect set state = ?, reason = ?, output = ?, halt = null "
                + "where effect_id = ?::uuid", state, reason, output, id);
    }

    void halt(String id, String reason, String operation) throws SQLException {
        update("update effect set halt = ?, halt_operation = ? where effect_id = ?::uuid",
                reason, operation, id);
    }

    /** The business effect: book under the effect id; returns the number of the ticket. */
    long book(String effectId, String seat) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement(
                "insert into booking (effect_id, seat) values (?::uuid, ?) returning ticket")) {
            insert.setString(1, effectId);
            insert.setString(2, seat);
            ResultSet row = insert.executeQuery();
            row.next();
            return row.getLong(1);
        }
    }

    Given given(String commandId) throws SQLException {
        try (PreparedStatement query = connection.prepareStatement("select status, terminal, reason, output, "
                + "answered_at from answer where command_id = ?::uuid")) {
            query.setString(1, commandId);
            ResultSet row = query.executeQuery();
            if (!row.next()) {
                return null;
            }
            Wire.Payload output = Participant.output(row.getString(4));
            return new Given(new Wire.Answer(row.getString(1), row.getString(2), row.getString(3), output),
                    row.getTimestamp(5).toInstant());
        }
    }

    void remember(String commandId, Wire.Answer answer, Instant at) throws SQLException {
        update("insert into answer values (?::uuid, ?, ?, ?, ?, ?::timestamptz)", commandId,
                answer.status(), answer.terminal(), answer.reason(),
                answer.output() == null ? null : answer.output().text(), Wire.INSTANT.format(at));
    }

    /** The clock of the database, in whole milliseconds: the only clock that decides. */
    Instant now() throws SQLException {
        try (var statement = connection.createStatement();
                ResultSet row = statement.executeQuery(
                        "select date_trunc('milliseconds', clock_timestamp())")) {
            row.next();
            return row.getTimestamp(1).toInstant();
        }
    }

    void commit() throws SQLException {
        connection.commit();
    }

    @Override
    public void close() throws SQLException {
        connection.close();
    }

    private void update(String sql, String... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int place = 0; place < values.length; place++) {
                statement.setString(place + 1, values[place]);
            }
            statement.executeUpdate();
        }
    }
}
