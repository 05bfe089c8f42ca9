import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A member of a group that copies a topic in transactions until standard input ends. Arguments: BROKER GROUP IN OUT ID, the last
 * being the transactional ID. What it prints: see interop/README.md.
 */
public final class Copier {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final int ABORT_EVERY = 8;
    private static final Duration LIMIT = Duration.ofSeconds(20);
    private static volatile boolean ended;

    /** Starts anew with clients of its own after each failure, as an application that was restarted would. */
    public static void main(String[] args) throws InterruptedException {
        Thread input = new Thread(Copier::awaitEnd);
        input.setDaemon(true);
        input.start();
        while (!ended) {
            try (var consumer = new KafkaConsumer<byte[], byte[]>(consuming(args[0], args[1], args[4]));
                    var producer = new KafkaProducer<byte[], byte[]>(producing(args[0], args[4]))) {
                producer.initTransactions();
                consumer.subscribe(List.of(args[2]));
                for (int n = 1; !ended; n++) {
                    copy(consumer, producer, args[3], n);
                }
            } catch (KafkaException e) {
                OUT.println("x " + e.toString().replace('\n', ' '));
                Thread.sleep(100);
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

    private static Properties consuming(String broker, String group, String id) {
        Properties p = new Properties();
        p.put("bootstrap.servers", broker);
        p.put("group.id", group);
        p.put("group.instance.id", id);
        p.put("group.protocol", "classic");
        p.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        p.put("isolation.level", "read_committed");
        p.put("session.timeout.ms", "6000");
        p.put("max.poll.interval.ms", "10000"); // also the rebalance time-out
        p.put("heartbeat.interval.ms", "1000");
        p.put("fetch.max.wait.ms", "300");
        p.put("max.poll.records", "50");
        p.put("key.deserializer", ByteArrayDeserializer.class.getName());
        p.put("value.deserializer", ByteArrayDeserializer.class.getName());
        return p;
    }

    private static Properties producing(String broker, String id) {
        Properties p = new Properties();
        p.put("bootstrap.servers", broker);
        p.put("transactional.id", id);
        p.put("transaction.timeout.ms", String.valueOf(LIMIT.toMillis()));
        p.put("max.block.ms", String.valueOf(LIMIT.toMillis()));
        p.put("key.serializer", ByteArraySerializer.class.getName());
        p.put("value.serializer", ByteArraySerializer.class.getName());
        return p;
    }

    private static void copy(KafkaConsumer<byte[], byte[]> consumer, KafkaProducer<byte[], byte[]> producer, String out, int n)
            throws InterruptedException {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(300));
        if (records.isEmpty()) {
            return;
        }
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<byte[], byte[]> r : records) {
            producer.send(new ProducerRecord<>(out, r.partition(), r.key(), r.value()));
            positions.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
        }
        Thread.sleep(30); // the work
        producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
        if (n % ABORT_EVERY != 0) {
            producer.commitTransaction();
            OUT.println("t " + records.count());
            return;
        }
        producer.flush();
        producer.abortTransaction();
        OUT.println("u " + records.count());
        // Once more from where the group is.
        var committed = consumer.committed(records.partitions(), LIMIT);
        for (TopicPartition tp : records.partitions()) {
            if (committed.get(tp) == null) {
                consumer.seekToBeginning(List.of(tp));
            } else {
                consumer.seek(tp, committed.get(tp));
            }
        }
    }

    private Copier() { }
}
