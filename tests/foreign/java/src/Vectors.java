import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
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
        signatures(read(contracts.resolve("vectors/signatures.json")));
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

    /** Rebuild the bytes that are signed and verify the signature: Ed25519 is in Java since 15. */
    private static void signatures(JsonNode document) throws Exception {
        String keyId = document.get("key_id").asText();
        byte[] raw = HexFormat.of().parseHex(document.get("public_key_hex").asText());
        byte[] encoded = join(HexFormat.of().parseHex("302a300506032b6570032100"), raw);
        PublicKey key = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(encoded));
        for (JsonNode each : document.get("vectors")) {
            byte[] signed = signedBytes(keyId, each);
            equal("signed bytes", each.get("signed_hex").asText(), HexFormat.of().formatHex(signed));
            String[] header = each.get("header").asText().split(";");
            equal("signature header", "v1;" + keyId, header[0] + ";" + header[1]);
            byte[] signature = Base64.getUrlDecoder().decode(header[2]);
            equal("signature", "true", "" + verifies(key, signed, signature));
            signed[signed.length - 1] ^= 1;
            equal("signature of other bytes", "false", "" + verifies(key, signed, signature));
        }
    }

    private static boolean verifies(PublicKey key, byte[] signed, byte[] signature) throws Exception {
        Signature verifier = Signature.getInstance("Ed25519");
        verifier.initVerify(key);
        verifier.update(signed);
        return verifier.verify(signature);
    }

    private static byte[] signedBytes(String keyId, JsonNode record) {
        Map<String, byte[]> headers = new HashMap<>();
        record.get("headers").forEach(pair ->
                headers.put(pair.get(0).asText(), Wire.bytes(pair.get(1).asText())));
        byte[] bytes = join(part(Wire.bytes("sagabus-signature-v1")), part(Wire.bytes(keyId)),
                part(Wire.bytes(record.get("topic").asText())), part(hex(record.get("key_hex"))));
        for (String name : List.of("ce_specversion", "ce_id", "ce_source", "ce_type", "ce_subject",
                "ce_time", "ce_dataschema", "content-type", "sagabus-redrive", "sagabus-start-source")) {
            bytes = join(bytes, part(headers.get(name)));
        }
        return join(bytes, part(hex(record.get("value_hex"))));
    }

    /** A part behind its length, or the mark of one that is absent. */
    private static byte[] part(byte[] value) {
        if (value == null) {
            return ByteBuffer.allocate(4).putInt(-1).array();
        }
        return ByteBuffer.allocate(4 + value.length).putInt(value.length).put(value).array();
    }

    private static byte[] join(byte[]... parts) {
        ByteArrayOutputStream joined = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            joined.writeBytes(part);
        }
        return joined.toByteArray();
    }

    private static byte[] hex(JsonNode text) {
        return text.isNull() ? null : HexFormat.of().parseHex(text.asText());
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
