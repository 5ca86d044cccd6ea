import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
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
    private static final String BASE64 = "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?";
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
    private static final List<String> COPIED = List.of("saga_id", "tenant", "workflow", "business_key",
            "definition_version", "definition_digest", "step", "activation", "phase", "target", "attempt",
            "effect_id", "command_id");
    private static final Set<String> ONCE = Set.of("ce_specversion", "ce_id", "ce_source", "ce_type",
            "ce_subject", "ce_time", "ce_dataschema", "content-type", "sagabus-redrive");

    private Wire() {}

    /** Business data: `text` is the exact text of `data`, or the base64 of raw bytes. */
    record Payload(String contentType, String schemaId, String text) {
        boolean isJson() {
            return contentType.equals("application/json");
        }
    }

    /** One attempt at one effect; its members were checked when it was read. */
    record Command(JsonNode body, Payload payload, Map<String, String> headers) {
        /** A text, null where it is absent. */
        String get(String name) {
            return body.hasNonNull(name) ? body.get(name).textValue() : null;
        }

        int attempt() {
            return body.get("attempt").intValue();
        }

        /** The effect id of a phase of this activation. */
        String effect(String phase, String target) {
            int version = body.get("definition_version").intValue();
            return Json.id("effect", get("saga_id"), version, get("activation"), phase, target);
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
        instant(text(body, "expires_at", ".*"));
        Command command = command(body, text, "payload", headers);
        String saga = command.get("saga_id");
        String ceId = command.get("command_id");
        if (headers.containsKey("sagabus-redrive")) {
            ceId = Json.id("redrive", ceId, headers.get("sagabus-redrive"));
        }
        if (key == null || !saga.equals(Json.text(key)) || !saga.equals(headers.get("ce_subject"))
                || !ceId.equals(headers.get("ce_id"))) {
            throw new Refused("header_body_mismatch", "key, ce_subject, ce_id and body must agree");
        }
        return command;
    }

    /** Raise `Refused` unless saga, effect and command id derive from the other members. */
    static void verifyIdentity(Command command) {
        String saga = Json.id("saga", command.get("tenant"), command.get("workflow"), command.get("business_key"));
        String effect = command.effect(command.get("phase"), command.get("target"));
        boolean derives = saga.equals(command.get("saga_id")) && effect.equals(command.get("effect_id"))
                && Json.id("command", effect, command.attempt()).equals(command.get("command_id"));
        if (!derives) {
            throw new Refused("identity_mismatch", "ids are derived, never chosen");
        }
    }

    static Command command(JsonNode body, String text, String member, Map<String, String> headers) {
        TEXTS.forEach((name, pattern) -> text(body, name, pattern));
        boolean aimed = body.hasNonNull("target") && text(body, "target", "EXECUTE|COMPENSATE") != null;
        if (aimed != body.get("phase").textValue().equals("RESOLVE")) {
            throw new Refused("forbidden_combination", "`target` stands with RESOLVE and only there");
        }
        if (body.hasNonNull("recovery_operation_id")) {
            text(body, "recovery_operation_id", KEY);
        }
        counter(body, "definition_version");
        counter(body, "attempt");
        return new Command(body, payload(body, text, member), headers);
    }

    /** The result record of a command; the event id is that of the first answer to it. */
    static ProducerRecord<byte[], byte[]> result(String topic, String source, Command to, Answer answer,
            Instant at) {
        String eventId = Json.id("result", to.get("command_id"), 1);
        ObjectNode body = Json.MAPPER.createObjectNode();
        for (String each : COPIED) {
            if (to.body.hasNonNull(each)) {
                body.set(each, to.body.get(each)); // what identifies is copied, never made anew
            }
        }
        body.put("event_id", eventId).put("status", answer.status);
        if (answer.terminal != null) {
            body.put("terminal_status", answer.terminal);
        }
        if (answer.reason != null) {
            body.put("reason_code", answer.reason);
        }
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
        String saga = to.get("saga_id");
        String[] attributes = {"ce_specversion", "1.0", "ce_id", eventId, "ce_source", source,
            "ce_type", "sagabus.result.v1", "ce_subject", saga, "ce_time", INSTANT.format(at),
            "ce_dataschema", "urn:sagabus:schema:result:v1", "content-type", "application/json"};
        for (int place = 0; place < attributes.length; place += 2) {
            add(headers, attributes[place], attributes[place + 1]);
        }
        for (String each : List.of("traceparent", "tracestate")) {
            if (to.headers.containsKey(each)) {
                add(headers, each, to.headers.get(each)); // the trace goes on through the answer
            }
        }
        return new ProducerRecord<>(topic, null, bytes(saga), bytes(body.toString()), headers);
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

    private static void counter(JsonNode body, String name) {
        if (!body.has(name)) {
            throw new Refused("missing_field", "the body needs `" + name + "`");
        }
        JsonNode value = body.get(name);
        if (!value.isIntegralNumber() || !value.canConvertToInt() || value.intValue() < 1) {
            throw new Refused("invalid_field", "`" + name + "` must be an integer from 1");
        }
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
        return new Payload(contentType, schemaId, text(given, "data_base64", BASE64));
    }
}
