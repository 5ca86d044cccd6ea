import com.fasterxml.jackson.databind.JsonNode;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The participant `seats` with the step `book-seat`: cancellable, compensatable, in its own Postgres.
 *
 * <p>One rule carries it: a record's outcome and answer are committed together in Postgres, then the
 * answer is published, then the offset is committed. A crash in between repeats the record, and a
 * repeat finds its answer. Whatever goes wrong outside ends the process; a supervisor starts it again.
 */
final class Participant {
    static final String INPUT = "seats.book-seat.v1";
    static final String OUTPUT = "seats.book-seat.output.v1";
    private static final String NAME = "seats";
    private static final String STEP = "book-seat";

    private final Journal journal;
    private final String resultTopic;

    Participant(Journal journal, String prefix) {
        this.journal = journal;
        this.resultTopic = prefix + "sagabus.result." + NAME + ".v1";
    }

    public static void main(String... arguments) throws Exception {
        Map<String, String> settings = System.getenv();
        String prefix = settings.getOrDefault("SAGABUS_TOPIC_PREFIX", "");
        Map<String, Object> client = new HashMap<>(Map.of(
                "bootstrap.servers", settings.get("SAGABUS_KAFKA"), "client.id", "sagabus-" + NAME));
        Map<String, Object> reading = new HashMap<>(client);
        reading.putAll(Map.of("group.id", prefix + NAME, "enable.auto.commit", "false",
                "auto.offset.reset", "earliest", "isolation.level", "read_committed",
                "fetch.max.wait.ms", "20", "session.timeout.ms", "10000"));
        // With an identity of its own a replica gets its partitions back at once after a crash.
        reading.put("group.instance.id", settings.getOrDefault("INSTANCE", NAME + "-1"));
        try (Journal journal = new Journal(settings.get("JDBC_URL"));
                var consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                var producer = new KafkaProducer<>(client, new ByteArraySerializer(), new ByteArraySerializer())) {
            consumer.subscribe(List.of(prefix + "sagabus.command." + NAME + ".v1"));
            Participant participant = new Participant(journal, prefix);
            while (true) {
                participant.work(consumer, producer);
            }
        }
    }

    private void work(KafkaConsumer<byte[], byte[]> consumer, KafkaProducer<byte[], byte[]> producer)
            throws SQLException, InterruptedException, ExecutionException {
        List<Future<?>> sent = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
            ProducerRecord<byte[], byte[]> out = handle(record);
            journal.commit();
            if (out != null) {
                sent.add(producer.send(out));
            }
        }
        for (Future<?> each : sent) {
            each.get(); // acknowledged by all replicas, or this process ends here
        }
        if (!sent.isEmpty()) {
            consumer.commitSync();
        }
    }

    /** What is to be published for a record; null: nothing. */
    private ProducerRecord<byte[], byte[]> handle(ConsumerRecord<byte[], byte[]> record) throws SQLException {
        Wire.Command command;
        try {
            command = Wire.decode(record.topic(), record.key(), record.headers(), record.value());
            Wire.verifyIdentity(command);
            if (!command.get("step").equals(STEP)) {
                throw new Refused("unknown_step", NAME + " has no step " + command.get("step"));
            }
        } catch (Refused refused) {
            return deadLetter(record, refused);
        }
        Journal.Effect effect = journal.lock(command.effect("EXECUTE", null));
        Instant now = journal.now();
        if (!now.isBefore(Wire.instant(command.get("expires_at")))) {
            return null; // expired: never started, not answered
        }
        Journal.Given given = journal.given(command.get("command_id"));
        if (given == null) {
            given = new Journal.Given(decide(command, effect), now);
            journal.remember(command.get("command_id"), given.answer(), now);
        }
        return Wire.result(resultTopic, "urn:sagabus:" + NAME, command, given.answer(), given.at());
    }

    private Wire.Answer decide(Wire.Command command, Journal.Effect effect) throws SQLException {
        return switch (command.get("phase")) {
            case "EXECUTE" -> execute(command, effect);
            case "CANCEL" -> cancel(effect);
            case "COMPENSATE" -> compensate(command, effect);
            default -> command.get("target").equals("EXECUTE") ? resolve(effect)
                    : resolveUndo(journal.lock(command.effect("COMPENSATE", null)));
        };
    }

    private Wire.Answer execute(Wire.Command command, Journal.Effect effect) throws SQLException {
        if (effect.is("SUCCEEDED")) {
            return new Wire.Answer("SUCCEEDED", null, null, output(effect.output()));
        }
        if (!effect.is("NONE")) {
            return Wire.Answer.because("REJECTED", effect.is("FENCED") ? "fenced" : effect.reason());
        }
        String operation = command.get("recovery_operation_id");
        if (effect.halt() != null && (operation == null || operation.equals(effect.operation()))) {
            return Wire.Answer.because("HALTED", effect.halt());
        }
        String seat = seat(command.payload());
        if (seat == null) {
            journal.halt(effect.id(), "payload_contract_mismatch", operation);
            return Wire.Answer.because("HALTED", "payload_contract_mismatch");
        }
        if (seat.equals("none")) {
            journal.save(effect.id(), "REJECTED", "no_such_seat", null);
            return Wire.Answer.because("REJECTED", "no_such_seat");
        }
        String ticket = "{\"ticket\":" + journal.book(effect.id(), seat) + "}";
        journal.save(effect.id(), "SUCCEEDED", null, ticket);
        return new Wire.Answer("SUCCEEDED", null, null, output(ticket));
    }

    private Wire.Answer cancel(Journal.Effect effect) throws SQLException {
        if (effect.is("SUCCEEDED") || effect.is("REJECTED")) {
            return new Wire.Answer("ALREADY_TERMINAL", effect.state(), effect.reason(), output(effect.output()));
        }
        fence(effect);
        return Wire.Answer.of("CANCEL_CONFIRMED");
    }

    private Wire.Answer resolve(Journal.Effect effect) throws SQLException {
        if (effect.is("SUCCEEDED")) {
            return new Wire.Answer("SUCCEEDED", null, null, output(effect.output()));
        }
        fence(effect);
        return Wire.Answer.because("REJECTED", effect.is("REJECTED") ? effect.reason() : "not_executed");
    }

    /** Block every later EXECUTE, in the transaction of the negative answer. */
    private void fence(Journal.Effect effect) throws SQLException {
        if (effect.is("NONE")) {
            journal.save(effect.id(), "FENCED", null, null);
        }
    }

    private Wire.Answer compensate(Wire.Command command, Journal.Effect effect) throws SQLException {
        if (!effect.is("SUCCEEDED")) {
            return Wire.Answer.because("HALTED", "nothing_to_compensate");
        }
        Journal.Effect undo = journal.lock(command.get("effect_id"));
        if (!undo.is("SUCCEEDED")) {
            journal.book(undo.id(), "given back");
            journal.save(undo.id(), "SUCCEEDED", null, null);
        }
        return Wire.Answer.of("SUCCEEDED");
    }

    private static Wire.Answer resolveUndo(Journal.Effect undo) {
        return undo.is("SUCCEEDED") ? Wire.Answer.of("SUCCEEDED")
                : Wire.Answer.because("REJECTED", "not_compensated");
    }

    /** The seat that is asked for; null where the payload breaks its contract. */
    private static String seat(Wire.Payload payload) {
        if (payload == null || !payload.isJson() || !payload.schemaId().equals(INPUT)) {
            return null;
        }
        JsonNode seat = Json.parse(payload.text()).path("seat");
        return seat.isTextual() ? seat.textValue() : null;
    }

    static Wire.Payload output(String text) {
        return text == null ? null : new Wire.Payload("application/json", OUTPUT, text);
    }

    /** The record as it came, with why and where from. */
    private static ProducerRecord<byte[], byte[]> deadLetter(ConsumerRecord<byte[], byte[]> record,
            Refused refused) {
        Headers headers = new RecordHeaders(record.headers());
        Map<String, String> facts = Map.of("reason", refused.code, "detail", "" + refused.getMessage(),
                "source-topic", record.topic(), "source-partition", "" + record.partition(),
                "source-offset", "" + record.offset(), "attempts", "1",
                "first-seen", Wire.INSTANT.format(Instant.now()));
        facts.forEach((name, value) -> Wire.add(headers, "sagabus-error-" + name, value));
        Wire.add(headers, "sagabus-dead-letter-id",
                Json.id("dead-letter", record.topic(), record.partition(), record.offset()));
        return new ProducerRecord<>(record.topic() + ".dlt", null, record.key(), record.value(), headers);
    }
}
