import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a classic consumer group that ends when standard input does. What it prints: see interop/README.md. */
final class Member implements ConsumerRebalanceListener {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static volatile boolean ended;

    static void run(String broker, String group, String topic) {
        Properties p = new Properties();
        p.put("bootstrap.servers", broker);
        p.put("group.id", group);
        p.put("group.protocol", "classic");
        p.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        p.put("session.timeout.ms", "6000");
        p.put("max.poll.interval.ms", "10000"); // also the rebalance time-out
        p.put("heartbeat.interval.ms", "1000");
        p.put("fetch.max.wait.ms", "300");
        p.put("max.poll.records", "50");
        Thread input = new Thread(Member::awaitEnd);
        input.setDaemon(true);
        input.start();
        try (var consumer = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic), new Member());
            while (!ended) {
                Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(300))) {
                    OUT.println("r " + r.partition() + " " + r.offset() + " " + r.value());
                    positions.put(new TopicPartition(topic, r.partition()), new OffsetAndMetadata(r.offset() + 1));
                }
                commit(consumer, positions);
            }
        }
    }

    private static void awaitEnd() {
        try {
            System.in.readAllBytes();
        } catch (IOException e) {
            // the same as its end
        }
        ended = true;
    }

    private static void commit(KafkaConsumer<?, ?> consumer, Map<TopicPartition, OffsetAndMetadata> positions) {
        if (positions.isEmpty()) {
            return;
        }
        try {
            Thread.sleep(30); // the work
            consumer.commitSync(positions, Duration.ofSeconds(6));
        } catch (KafkaException | InterruptedException e) {
            OUT.println("x " + e.toString().replace('\n', ' '));
            return;
        }
        positions.forEach((tp, o) -> OUT.println("c " + tp.partition() + " " + o.offset()));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        StringBuilder line = new StringBuilder("a");
        partitions.forEach(tp -> line.append(' ').append(tp.partition()));
        OUT.println(line);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) { }
}
