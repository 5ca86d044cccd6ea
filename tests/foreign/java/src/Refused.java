/** A record that cannot be handled: a code of contracts/errors.md, and a sentence for people. */
final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1;
    final String code;

    Refused(String code, String detail) {
        super(detail);
        this.code = code;
    }
}
