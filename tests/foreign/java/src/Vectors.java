import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** What contracts/README.md asks for under `How a participant proves itself`: vectors and examples. */
final class Vectors {
    private static int checks;

    private Vectors() {}

    public static void main(String... arguments) throws Exception {
        Path contracts = Path.of(arguments[0]);
        ids(read(contracts.resolve("vectors/ids.json")));
        canonical(read(contracts.resolve("vectors/canonical.json")));
        instants(read(contracts.resolve("vectors/instants.json")));
        messages(read(contracts.resolve("vectors/messages.json")));
        examples(contracts.resolve("examples/command"));
        System.out.println(checks + " checks of vectors and examples hold");
    }

    private static void ids(JsonNode document) {
        equal("namespace", document.get("namespace").asText(), Json.NAMESPACE);
        for (JsonNode each : document.get("vectors")) {
            String canonical = Canonical.of(each.get("parts"));
            equal("canonical form", each.get("canonical").asText(), canonical);
            equal("id of " + canonical, each.get("id").asText(), Json.id(canonical));
        }
    }

    private static void canonical(JsonNode document) throws Exception {
        for (JsonNode each : document) {
            String name = each.get("name").asText();
            String canonical = Canonical.of(each.get("value"));
            equal(name, each.get("canonical").asText(), canonical);
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(Wire.bytes(canonical));
            equal(name + ", digest", each.get("sha256").asText(), HexFormat.of().formatHex(digest));
        }
    }

    private static void instants(JsonNode document) {
        for (JsonNode each : document) {
            String text = each.get("text").asText();
            equal("instant", each.get("epoch_ms").asText(), "" + Wire.instant(text).toEpochMilli());
            equal("written instant", text, Wire.INSTANT.format(Wire.instant(text)));
        }
    }

    private static void messages(JsonNode document) {
        for (JsonNode each : document) {
            byte[] value = Base64.getDecoder().decode(each.get("body_base64").asText());
            Headers headers = new RecordHeaders();
            each.get("headers").forEach(pair ->
                    Wire.add(headers, pair.get(0).asText(), pair.get(1).asText()));
            String name = each.get("name").asText();
            String topic = each.get("topic").asText();
            if (topic.contains(".command.")) {
                Wire.Command command = Wire.decode(topic, Wire.bytes(each.get("key").asText()), headers, value);
                Wire.verifyIdentity(command);
                equal(name + ", payload", "{\"amount\": 12.50, \"note\":\"caf\\u00e9\"}",
                        command.payload().text());
            } else if (topic.contains(".result.")) {
                result(name, topic, headers, value);
            }
        }
    }

    /** Read a result as if it were the command that it answers, and write it again. */
    private static void result(String name, String topic, Headers headers, byte[] value) {
        String text = Json.text(value);
        JsonNode body = Json.parse(text);
        Wire.Command to = Wire.command(body, text, "output", Map.of());
        Wire.verifyIdentity(to);
        Wire.Answer answer = new Wire.Answer(body.get("status").asText(),
                body.has("terminal_status") ? body.get("terminal_status").asText() : null, null, to.payload());
        var written = Wire.result(topic, "urn:sagabus:payments", to, answer,
                Wire.instant(body.get("occurred_at").asText()));
        equal(name + ", body", text, Json.text(written.value()));
        equal(name + ", headers", Arrays.toString(headers.toArray()),
                Arrays.toString(written.headers().toArray()));
    }

    private static void examples(Path folder) throws IOException {
        for (String group : List.of("valid", "invalid")) {
            try (Stream<Path> files = Files.list(folder.resolve(group))) {
                for (Path file : files.sorted().toList()) {
                    JsonNode example = read(file);
                    String expected = example.path("expect").asText("accepted");
                    equal(file.getFileName().toString(), expected, verdict(example));
                }
            }
        }
    }

    private static String verdict(JsonNode example) {
        Headers headers = new RecordHeaders();
        example.get("headers").properties().forEach(each ->
                Wire.add(headers, each.getKey(), each.getValue().asText()));
        try {
            byte[] value = Wire.bytes(example.get("body").toString());
            byte[] key = Wire.bytes(example.get("key").asText());
            Wire.verifyIdentity(Wire.decode(example.get("topic").asText(), key, headers, value));
            return "accepted";
        } catch (Refused refused) {
            return refused.code;
        }
    }

    private static JsonNode read(Path file) throws IOException {
        return Json.MAPPER.readTree(Files.readString(file));
    }

    private static void equal(String what, String expected, String found) {
        checks++;
        if (!expected.equals(found)) {
            throw new IllegalStateException(what + ": expected " + expected + ", found " + found);
        }
    }
}
