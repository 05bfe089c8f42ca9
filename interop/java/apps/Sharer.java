import java.time.Duration;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group that acknowledges each record by itself, until standard input ends. Arguments: BROKER GROUP TOPIC SEED.
 * What it prints: see interop/README.md.
 */
public final class Sharer {
    private final KafkaShareConsumer<String, String> consumer;
    private final Random random;
    /** What was renewed: the next poll has it again. */
    private final Set<String> renewed = new HashSet<>();

    public static void main(String[] args) throws InterruptedException {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("group.id", args[1]);
        p.put("share.acknowledgement.mode", "explicit");
        p.put("share.acquire.mode", "record_limit");
        p.put("max.poll.records", "20");
        p.put("fetch.max.wait.ms", "300");
        Input.watch();
        try (var consumer = new KafkaShareConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(args[2]));
            Sharer sharer = new Sharer(consumer, new Random(Long.parseLong(args[3])));
            while (!Input.ended()) {
                sharer.batch();
            }
        }
    }

    private Sharer(KafkaShareConsumer<String, String> consumer, Random random) {
        this.consumer = consumer;
        this.random = random;
    }

    private void batch() throws InterruptedException {
        Say.line("p", Say.now());
        Map<ConsumerRecord<String, String>, AcknowledgeType> answers = new LinkedHashMap<>();
        for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(300))) {
            if (renewed.remove(name(r))) {
                answers.put(r, AcknowledgeType.ACCEPT);
                continue;
            }
            Say.line("d", Say.now(), r.partition(), r.offset(), r.deliveryCount().orElse((short) 0), r.value());
            answers.put(r, draw());
        }
        if (answers.isEmpty()) {
            return;
        }
        Thread.sleep(random.nextInt(100) == 0 ? 5000 : 20); // the work, which few times outlasts the locks
        answers.forEach((r, type) -> {
            Say.line("y", Say.now(), r.partition(), r.offset(), type.id);
            consumer.acknowledge(r, type);
        });
        Map<Integer, Optional<KafkaException>> results = new LinkedHashMap<>();
        String failure = "no answer";
        try {
            consumer.commitSync(Duration.ofSeconds(6)).forEach((tp, e) -> results.put(tp.partition(), e));
        } catch (KafkaException e) {
            failure = e.toString();
        }
        for (var answer : answers.entrySet()) {
            settled(answer.getKey(), answer.getValue(), results.get(answer.getKey().partition()), failure);
        }
    }

    private void settled(ConsumerRecord<String, String> r, AcknowledgeType type, Optional<KafkaException> result, String failure) {
        if (result == null || result.isPresent()) {
            Say.line("n", Say.now(), r.partition(), r.offset(), type.id, result == null ? failure : result.get());
            return;
        }
        Say.line("k", Say.now(), r.partition(), r.offset(), type.id);
        if (type == AcknowledgeType.RENEW) {
            renewed.add(name(r));
        }
    }

    private static String name(ConsumerRecord<?, ?> r) {
        return r.partition() + " " + r.offset() + " " + r.deliveryCount();
    }

    private AcknowledgeType draw() {
        int n = random.nextInt(100);
        if (n < 75) {
            return AcknowledgeType.ACCEPT;
        }
        if (n < 90) {
            return AcknowledgeType.RELEASE;
        }
        return n < 95 ? AcknowledgeType.REJECT : AcknowledgeType.RENEW;
    }
}
