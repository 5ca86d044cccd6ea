import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** Commands in, results out: CloudEvents 1.0 over Kafka in binary mode, as contracts/README.md says. */
final class Wire {
    static final DateTimeFormatter INSTANT =
            DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSS'Z'").withZone(ZoneOffset.UTC);
    private static final String NAME = "[a-z0-9][a-z0-9-]{0,62}";
    private static final String ID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}";
    private static final String KEY = "[\\p{L}\\p{M}\\p{N}\\p{P}\\p{S} ]{1,128}";
    private static final String VISIT = NAME + "(\\[[1-9][0-9]{0,15}\\])?";
    private static final String TIME = "(19[7-9]\\d|[2-9]\\d{3})-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z";
    private static final Pattern TOPIC = Pattern.compile(
            "(?:" + NAME + "\\.)*sagabus\\.command\\." + NAME + "\\.v1(\\.dlt)?");
    private static final Pattern TYPE = Pattern.compile("sagabus\\.command\\.v[0-9]+");
    private static final Map<String, String> TEXTS = Map.ofEntries(Map.entry("saga_id", ID),
            Map.entry("tenant", KEY), Map.entry("workflow", NAME), Map.entry("business_key", KEY),
            Map.entry("definition_digest", "[0-9a-f]{64}"), Map.entry("step", NAME),
            Map.entry("activation", VISIT + "(\\." + VISIT + ")*"),
            Map.entry("phase", "EXECUTE|CANCEL|COMPENSATE|RESOLVE"), Map.entry("effect_id", ID),
            Map.entry("command_id", ID));
    private static final Set<String> ONCE = Set.of("ce_specversion", "ce_id", "ce_source", "ce_type",
            "ce_subject", "ce_time", "ce_dataschema", "content-type", "sagabus-redrive");

    private Wire() {}

    /** Business data: `text` is the exact text of `data`, or the base64 of raw bytes. */
    record Payload(String contentType, String schemaId, String text) {
        boolean isJson() {
            return contentType.equals("application/json");
        }
    }

    /** One attempt at one effect; `expiresAt` is null only in what a test makes of a result. */
    record Command(String sagaId, String tenant, String workflow, String businessKey, int version,
            String digest, String step, String activation, String phase, String target, int attempt,
            String effectId, String commandId, String recovery, Instant expiresAt, Payload payload,
            Map<String, String> headers) {
        /** The effect id of another phase of this activation. */
        String effectOf(String other) {
            return Json.id("effect", sagaId, version, activation, other, null);
        }
    }

    /** What is said about a command. */
    record Answer(String status, String terminal, String reason, Payload output) {
        static Answer of(String status) {
            return new Answer(status, null, null, null);
        }

        static Answer because(String status, String reason) {
            return new Answer(status, null, reason, null);
        }
    }

    /** The command of a record, if every rule of the contract holds; else `Refused`. */
    static Command decode(String topic, byte[] key, Headers sent, byte[] value) {
        if (!TOPIC.matcher(topic).matches()) {
            throw new Refused("unknown_topic", topic + " is no command topic");
        }
        Map<String, String> headers = headers(sent);
        checkHeaders(headers);
        if (value == null) {
            throw new Refused("missing_body", "the record has no value");
        }
        if (value.length > 256 * 1024) {
            throw new Refused("body_too_large", "the body exceeds 256 KiB");
        }
        String text = Json.text(value);
        JsonNode body = Json.parse(text);
        if (!body.isObject()) {
            throw new Refused("invalid_field", "the body must be an object");
        }
        if (!body.has("expires_at")) {
            throw new Refused("missing_field", "the body needs `expires_at`");
        }
        Command command = command(body, text, "payload", headers);
        String redrive = headers.get("sagabus-redrive");
        String ceId = redrive == null ? command.commandId : Json.id("redrive", command.commandId, redrive);
        String subject = headers.get("ce_subject");
        if (key == null || !command.sagaId.equals(Json.text(key)) || !command.sagaId.equals(subject)
                || !ceId.equals(headers.get("ce_id"))) {
            throw new Refused("header_body_mismatch", "key, ce_subject, ce_id and body must agree");
        }
        return command;
    }

    /** Raise `Refused` unless saga, effect and command id derive from the other members. */
    static void verifyIdentity(Command command) {
        String effect = Json.id("effect", command.sagaId, command.version, command.activation,
                command.phase, command.target);
        boolean derives = Json.id("saga", command.tenant, command.workflow, command.businessKey)
                .equals(command.sagaId) && effect.equals(command.effectId)
                && Json.id("command", effect, command.attempt).equals(command.commandId);
        if (!derives) {
            throw new Refused("identity_mismatch", "ids are derived, never chosen");
        }
    }

    static Command command(JsonNode body, String text, String member, Map<String, String> headers) {
        Map<String, String> found = new TreeMap<>();
        TEXTS.forEach((name, pattern) -> found.put(name, text(body, name, pattern)));
        String target = body.hasNonNull("target") ? text(body, "target", "EXECUTE|COMPENSATE") : null;
        if (target != null != found.get("phase").equals("RESOLVE")) {
            throw new Refused("forbidden_combination", "`target` stands with RESOLVE and only there");
        }
        String recovery = body.hasNonNull("recovery_operation_id")
                ? text(body, "recovery_operation_id", KEY) : null;
        Instant expires = body.has("expires_at") ? instant(text(body, "expires_at", ".*")) : null;
        return new Command(found.get("saga_id"), found.get("tenant"), found.get("workflow"),
                found.get("business_key"), counter(body, "definition_version"),
                found.get("definition_digest"), found.get("step"), found.get("activation"),
                found.get("phase"), target, counter(body, "attempt"), found.get("effect_id"),
                found.get("command_id"), recovery, expires, payload(body, text, member), headers);
    }

    /** The result record of a command; the event id is that of the first answer to it. */
    static ProducerRecord<byte[], byte[]> result(String topic, String source, Command to, Answer answer,
            Instant at) {
        String eventId = Json.id("result", to.commandId, 1);
        ObjectNode body = Json.MAPPER.createObjectNode().put("saga_id", to.sagaId).put("tenant", to.tenant)
                .put("workflow", to.workflow).put("business_key", to.businessKey)
                .put("definition_version", to.version).put("definition_digest", to.digest)
                .put("step", to.step).put("activation", to.activation).put("phase", to.phase);
        putUnlessNull(body, "target", to.target);
        body.put("attempt", to.attempt).put("effect_id", to.effectId).put("command_id", to.commandId)
                .put("event_id", eventId).put("status", answer.status);
        putUnlessNull(body, "terminal_status", answer.terminal);
        putUnlessNull(body, "reason_code", answer.reason);
        body.put("occurred_at", INSTANT.format(at));
        if (answer.output != null) {
            ObjectNode output = body.putObject("output").put("content_type", answer.output.contentType)
                    .put("schema_id", answer.output.schemaId);
            if (answer.output.isJson()) {
                output.putRawValue("data", new RawValue(answer.output.text));
            } else {
                output.put("data_base64", answer.output.text);
            }
        }
        Headers headers = new RecordHeaders();
        add(headers, "ce_specversion", "1.0");
        add(headers, "ce_id", eventId);
        add(headers, "ce_source", source);
        add(headers, "ce_type", "sagabus.result.v1");
        add(headers, "ce_subject", to.sagaId);
        add(headers, "ce_time", INSTANT.format(at));
        add(headers, "ce_dataschema", "urn:sagabus:schema:result:v1");
        add(headers, "content-type", "application/json");
        for (String each : List.of("traceparent", "tracestate")) {
            if (to.headers.containsKey(each)) {
                add(headers, each, to.headers.get(each)); // the trace goes on through the answer
            }
        }
        return new ProducerRecord<>(topic, null, bytes(to.sagaId), bytes(body.toString()), headers);
    }

    /** The instant of its one written form. */
    static Instant instant(String text) {
        try {
            if (text.matches(TIME)) {
                return Instant.parse(text);
            }
        } catch (DateTimeException noSuchDay) {
            // 30 February has the right form
        }
        throw new Refused("invalid_instant", text + " must be written like 2026-01-31T12:00:00.000Z");
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void add(Headers headers, String name, String value) {
        headers.add(new RecordHeader(name, bytes(value)));
    }

    private static Map<String, String> headers(Headers sent) {
        Map<String, String> found = new TreeMap<>();
        for (Header each : sent) {
            String value = each.value() == null ? "" : new String(each.value(), StandardCharsets.UTF_8);
            if (found.put(each.key(), value) != null && ONCE.contains(each.key())) {
                throw new Refused("invalid_header", each.key() + " stands twice");
            }
        }
        return found;
    }

    private static void checkHeaders(Map<String, String> headers) {
        for (String name : List.of("ce_type", "ce_specversion", "content-type", "ce_source", "ce_id",
                "ce_time", "ce_subject")) {
            if (!headers.containsKey(name)) {
                throw new Refused("missing_header", "the record needs the header " + name);
            }
        }
        String type = headers.get("ce_type");
        if (!type.equals("sagabus.command.v1")) {
            boolean other = TYPE.matcher(type).matches();
            throw new Refused(other ? "unknown_version" : "header_body_mismatch", "ce_type is " + type);
        }
        String schema = "urn:sagabus:schema:command:v1";
        if (!headers.getOrDefault("ce_dataschema", schema).equals(schema)) {
            throw new Refused("header_body_mismatch", "ce_dataschema is not that of a command");
        }
        boolean right = headers.get("ce_specversion").equals("1.0")
                && headers.get("content-type").split(";")[0].strip().equals("application/json")
                && headers.get("ce_source").matches("urn:sagabus:" + NAME)
                && headers.get("ce_id").matches(KEY) && headers.get("ce_time").matches(TIME);
        if (!right) {
            throw new Refused("invalid_header", "a CloudEvents header is malformed");
        }
    }

    private static String text(JsonNode body, String name, String pattern) {
        if (!body.has(name)) {
            throw new Refused("missing_field", "the body needs `" + name + "`");
        }
        JsonNode value = body.get(name);
        if (!value.isTextual() || !value.textValue().matches(pattern)) {
            boolean key = value.isTextual() && pattern.equals(KEY);
            throw new Refused(key ? "invalid_key" : "invalid_field", "`" + name + "` is malformed");
        }
        return value.textValue();
    }

    private static int counter(JsonNode body, String name) {
        if (!body.has(name)) {
            throw new Refused("missing_field", "the body needs `" + name + "`");
        }
        JsonNode value = body.get(name);
        if (!value.isIntegralNumber() || !value.canConvertToInt() || value.intValue() < 1) {
            throw new Refused("invalid_field", "`" + name + "` must be an integer from 1");
        }
        return value.intValue();
    }

    private static Payload payload(JsonNode body, String text, String member) {
        if (!body.hasNonNull(member)) {
            return null;
        }
        JsonNode given = body.get(member);
        String contentType = text(given, "content_type", "[a-z0-9][!-~&&[^A-Z;/]]*/[a-z0-9][!-~&&[^A-Z;/]]*");
        String schemaId = text(given, "schema_id", "[!-~]{1,255}");
        boolean json = contentType.equals("application/json");
        if (!given.has(json ? "data" : "data_base64") || given.has(json ? "data_base64" : "data")) {
            throw new Refused("forbidden_combination", "`data` is for JSON, `data_base64` for the rest");
        }
        if (json) {
            return new Payload(contentType, schemaId, Json.dataText(text, member));
        }
        try {
            String base64 = text(given, "data_base64", "[A-Za-z0-9+/]*=*");
            Base64.getDecoder().decode(base64);
            return new Payload(contentType, schemaId, base64);
        } catch (IllegalArgumentException malformed) {
            throw new Refused("invalid_field", "`data_base64` must be padded base64");
        }
    }

    private static void putUnlessNull(ObjectNode body, String name, String value) {
        if (value != null) {
            body.put(name, value);
        }
    }
}
