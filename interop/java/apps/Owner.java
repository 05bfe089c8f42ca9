import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a group that tells what it gets and what it gives up, until standard input ends. Arguments: BROKER GROUP TOPICS PROTOCOL
 * ASSIGNOR. What they mean and what it prints: see interop/README.md.
 */
public final class Owner implements ConsumerRebalanceListener {
    private final Set<TopicPartition> revoked = new HashSet<>(); // and not assigned again

    public static void main(String[] args) throws InterruptedException {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("group.id", args[1]);
        p.put("group.protocol", args[3]);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        p.put("max.poll.interval.ms", "10000"); // also the rebalance time-out
        p.put("fetch.max.wait.ms", "300");
        p.put("metadata.max.age.ms", "2000");
        p.put("max.poll.records", "50");
        boolean classic = args[3].equals("classic");
        if (classic) {
            p.put("session.timeout.ms", "6000");
            p.put("heartbeat.interval.ms", "1000");
            p.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        } else {
            p.put("group.remote.assignor", args[4]);
        }
        Input.watch();
        try (var consumer = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            if (!args[2].startsWith("^")) {
                consumer.subscribe(List.of(args[2].split(",")), new Owner());
            } else if (classic) {
                consumer.subscribe(Pattern.compile(args[2]), new Owner());
            } else {
                consumer.subscribe(new SubscriptionPattern(args[2]), new Owner());
            }
            while (!Input.ended()) {
                batch(consumer);
            }
        }
    }

    private static void batch(KafkaConsumer<String, String> consumer) throws InterruptedException {
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(300))) {
            TopicPartition tp = new TopicPartition(r.topic(), r.partition());
            Say.line("r", number(tp), r.offset(), r.value());
            positions.put(tp, new OffsetAndMetadata(r.offset() + 1));
        }
        if (positions.isEmpty()) {
            return;
        }
        Thread.sleep(30); // the work
        try {
            consumer.commitSync(positions, Duration.ofSeconds(6));
        } catch (KafkaException e) {
            Say.line("x", e);
            return;
        }
        positions.forEach((tp, o) -> Say.line("c", number(tp), o.offset()));
    }

    private static int number(TopicPartition tp) {
        return Integer.parseInt(tp.topic().substring(tp.topic().lastIndexOf('-') + 1)) * 100 + tp.partition();
    }

    private static void owned(String what, Collection<TopicPartition> partitions) {
        if (!partitions.isEmpty()) {
            Say.line(what, Say.now(), String.join(" ", partitions.stream().map(tp -> String.valueOf(number(tp))).toList()));
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        revoked.removeAll(partitions);
        owned("+", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        // A consumer of the consumer protocol that is closed during a reconciliation calls this twice for the same partitions: for the
        // reconciliation, and for leaving (4.4.0). Before it is closed, a second call is a fault, and is told.
        owned("-", Input.ended() ? partitions.stream().filter(tp -> !revoked.contains(tp)).toList() : partitions);
        revoked.addAll(partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        owned("l", partitions);
    }

    private Owner() { }
}
