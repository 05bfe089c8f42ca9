import java.io.IOException;

/** Standard input, by whose end a member is told to leave. */
final class Input {
    private static volatile boolean ended;

    static void watch() {
        Thread input = new Thread(() -> {
            try {
                System.in.readAllBytes();
            } catch (IOException e) {
                // the same as its end
            }
            ended = true;
        });
        input.setDaemon(true);
        input.start();
    }

    static boolean ended() {
        return ended;
    }

    private Input() { }
}
