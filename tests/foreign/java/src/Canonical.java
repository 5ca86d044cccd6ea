import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.util.StringJoiner;
import java.util.TreeMap;

/** RFC 8785 of any value, for the golden vectors; a participant needs no more than `Json.id`. */
final class Canonical {
    private Canonical() {}

    static String of(JsonNode node) {
        if (node.isObject()) {
            TreeMap<String, JsonNode> sorted = new TreeMap<>(); // by UTF-16 code units, as RFC 8785 says
            node.properties().forEach(each -> sorted.put(each.getKey(), each.getValue()));
            StringJoiner members = new StringJoiner(",", "{", "}");
            sorted.forEach((name, value) -> members.add(Json.quoted(name) + ":" + of(value)));
            return members.toString();
        }
        if (node.isArray()) {
            StringJoiner items = new StringJoiner(",", "[", "]");
            node.forEach(each -> items.add(of(each)));
            return items.toString();
        }
        if (node.isTextual()) {
            return Json.quoted(node.textValue());
        }
        return node.isFloatingPointNumber() ? number(node.doubleValue()) : node.asText();
    }

    /** ECMAScript's shortest form of a double. */
    private static String number(double value) {
        if (value == 0) {
            return "0";
        }
        BigDecimal shortest = new BigDecimal(value);
        for (int digits = 17; digits >= 1; digits--) {
            BigDecimal rounded = new BigDecimal(value).round(new MathContext(digits, RoundingMode.HALF_EVEN));
            if (rounded.doubleValue() != value) {
                break;
            }
            shortest = rounded.stripTrailingZeros();
        }
        String digits = shortest.unscaledValue().abs().toString();
        int length = digits.length();
        int point = length - shortest.scale();
        String sign = value < 0 ? "-" : "";
        if (point > 21 || point <= -6) {
            String rest = length > 1 ? "." + digits.substring(1) : "";
            return sign + digits.charAt(0) + rest + "e" + (point > 0 ? "+" : "") + (point - 1);
        }
        if (point <= 0) {
            return sign + "0." + "0".repeat(-point) + digits;
        }
        return sign + (length <= point ? digits + "0".repeat(point - length)
                : digits.substring(0, point) + "." + digits.substring(point));
    }
}
