import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.StringJoiner;
import java.util.UUID;

/** JSON that means one thing to every reader, and the ids derived from canonical arrays. */
final class Json {
    static final String NAMESPACE = "88955dde-e4bc-4f71-8e6c-e60f4282c3be";
    private static final BigInteger SAFE = BigInteger.valueOf((1L << 53) - 1);
    static final ObjectMapper MAPPER = new ObjectMapper(JsonFactory.builder()
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .streamReadConstraints(StreamReadConstraints.builder().maxNestingDepth(64).build())
            .build()).enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

    private Json() {}

    /** Decode strictly; refused with the code of contracts/errors.md. */
    static String text(byte[] raw) {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(raw)).toString();
        } catch (CharacterCodingException notUtf8) {
            throw new Refused("invalid_json", "the body is not UTF-8");
        }
    }

    static JsonNode parse(String text) {
        try {
            JsonNode tree = MAPPER.readTree(text);
            if (tree == null || tree.isMissingNode()) {
                throw new Refused("invalid_json", "the body is empty");
            }
            check(tree);
            return tree;
        } catch (StreamConstraintsException tooDeep) {
            throw new Refused("json_too_deep", tooDeep.getOriginalMessage());
        } catch (JsonProcessingException wrong) {
            boolean twice = wrong.getOriginalMessage().startsWith("Duplicate");
            throw new Refused(twice ? "duplicate_key" : "invalid_json", wrong.getOriginalMessage());
        }
    }

    private static void check(JsonNode node) {
        if (node.isTextual()) {
            checkText(node.textValue());
        } else if (node.isIntegralNumber()) {
            if (node.bigIntegerValue().abs().compareTo(SAFE) > 0) {
                throw new Refused("unsafe_integer", "send large numbers as text");
            }
        } else if (node.isNumber() && !Double.isFinite(node.doubleValue())) {
            throw new Refused("non_finite_number", "a number overflows");
        }
        node.fieldNames().forEachRemaining(Json::checkText);
        node.forEach(Json::check);
    }

    private static void checkText(String text) {
        for (int at = 0; at < text.length(); at++) {
            char here = text.charAt(at);
            if (here == 0) {
                throw new Refused("nul_character", "a text holds U+0000");
            }
            boolean pair = Character.isHighSurrogate(here) && at + 1 < text.length()
                    && Character.isLowSurrogate(text.charAt(at + 1));
            if (Character.isSurrogate(here) && !pair) {
                throw new Refused("lone_surrogate", "a text holds half of a surrogate pair");
            }
            at += pair ? 1 : 0;
        }
    }

    /** The exact text of `data` within the object `member`: what digests cover. Null: there is none. */
    static String dataText(String text, String member) {
        try (JsonParser parser = MAPPER.getFactory().createParser(text)) {
            parser.nextToken();
            if (!seek(parser, member) || !parser.isExpectedStartObjectToken() || !seek(parser, "data")) {
                return null;
            }
            int from = (int) parser.currentTokenLocation().getCharOffset();
            parser.skipChildren();
            parser.finishToken();
            return text.substring(from, (int) parser.currentLocation().getCharOffset());
        } catch (IOException impossible) {
            throw new IllegalStateException("it was parsed before", impossible);
        }
    }

    /** Go to the value of a member of the object that was just entered. */
    private static boolean seek(JsonParser parser, String name) throws IOException {
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            boolean found = parser.currentName().equals(name);
            parser.nextToken();
            if (found) {
                return true;
            }
            parser.skipChildren();
        }
        return false;
    }

    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            int escape = "\b\t\n\f\r\"\\".indexOf(each);
            if (escape >= 0) {
                out.append('\\').append("btnfr\"\\".charAt(escape));
            } else if (each < ' ') {
                out.append(String.format("\\u%04x", (int) each));
            } else {
                out.append(each);
            }
        }
        return out.append('"').toString();
    }

    /** UUIDv5 in the published namespace over the RFC 8785 form of an array. */
    static String id(Object... parts) {
        StringJoiner items = new StringJoiner(",", "[", "]");
        for (Object each : parts) {
            items.add(each instanceof String text ? quoted(text) : String.valueOf(each));
        }
        return id(items.toString());
    }

    static String id(String canonical) {
        try {
            MessageDigest sha1 = MessageDigest.getInstance("SHA-1");
            UUID space = UUID.fromString(NAMESPACE);
            sha1.update(ByteBuffer.allocate(16).putLong(space.getMostSignificantBits())
                    .putLong(space.getLeastSignificantBits()).array());
            ByteBuffer hash = ByteBuffer.wrap(sha1.digest(canonical.getBytes(StandardCharsets.UTF_8)));
            long high = hash.getLong() & ~0xF000L | 0x5000L;
            long low = hash.getLong() & 0x3FFFFFFFFFFFFFFFL | 0x8000000000000000L;
            return new UUID(high, low).toString();
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
