
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The interop client on Apache kafka-clients. Commands and the form of records: see interop/README.md. */
public final class Client {
    private static final int PARTITIONS = 3;
    private static final Duration LIMIT = Duration.ofSeconds(120);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        String broker = args[1];
        if (args[0].equals("member")) {
            Member.run(broker, args[2], args[3]);
            return;
        }
        switch (args[0]) {
            case "write" -> write(broker, args[2], args[3]);
            case "read" -> read(broker, Integer.parseInt(args[2]), Arrays.asList(args).subList(3, args.length));
            case "group" -> group(broker, Integer.parseInt(args[2]), args[3], args[4]);
            default -> throw new IllegalArgumentException("unknown command " + args[0]);
        }
        OUT.flush();
    }

    private static void write(String broker, String topic, String codec) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", broker);
        p.put("acks", "all");
        p.put("enable.idempotence", "true");
        p.put("compression.type", codec);
        p.put("linger.ms", "20");
        p.put("batch.size", "1000000");
        p.put("delivery.timeout.ms", "60000");
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                List<Future<RecordMetadata>> acks = new ArrayList<>();
                for (JsonNode r : JSON.readTree(line)) {
                    acks.add(producer.send(decode(topic, r)));
                }
                producer.flush();
                ArrayNode offsets = JSON.createArrayNode();
                for (Future<RecordMetadata> ack : acks) {
                    offsets.add(ack.get(LIMIT.toSeconds(), TimeUnit.SECONDS).offset());
                }
                OUT.println(offsets);
            }
        }
    }

    private static void read(String broker, int count, List<String> topics) throws IOException {
        List<TopicPartition> all = new ArrayList<>();
        for (String t : topics) {
            for (int i = 0; i < PARTITIONS; i++) {
                all.add(new TopicPartition(t, i));
            }
        }
        try (var consumer = consumer(broker, new Properties())) {
            consumer.assign(all);
            consumer.seekToBeginning(all);
            take(consumer, count * topics.size());
        }
    }

    private static void group(String broker, int count, String group, String topic) throws IOException {
        Properties p = new Properties();
        p.put("group.id", group);
        p.put("group.protocol", "classic");
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        try (var consumer = consumer(broker, p)) {
            consumer.subscribe(List.of(topic));
            consumer.commitSync(take(consumer, count));
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String broker, Properties p) {
        p.put("bootstrap.servers", broker);
        return new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Prints exactly count records and returns the positions behind them. */
    private static Map<TopicPartition, OffsetAndMetadata> take(KafkaConsumer<byte[], byte[]> consumer, int count)
            throws IOException {
        long end = System.nanoTime() + LIMIT.toNanos();
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        while (count > 0) {
            if (System.nanoTime() > end) {
                throw new IOException(count + " records missing after " + LIMIT);
            }
            for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofSeconds(1))) {
                if (count == 0) {
                    break;
                }
                OUT.println(encode(r));
                positions.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
                count--;
            }
        }
        return positions;
    }

    private static ProducerRecord<byte[], byte[]> decode(String topic, JsonNode r) throws IOException {
        List<Header> headers = new ArrayList<>();
        for (JsonNode h : r.get("headers")) {
            headers.add(new RecordHeader(h.get(0).asText(), bytes(h.get(1))));
        }
        return new ProducerRecord<>(topic, r.get("partition").asInt(), r.get("timestamp").asLong(),
                bytes(r.get("key")), bytes(r.get("value")), headers);
    }

    private static byte[] bytes(JsonNode n) {
        return n.isNull() ? null : Base64.getDecoder().decode(n.asText());
    }

    private static ObjectNode encode(ConsumerRecord<byte[], byte[]> r) {
        ObjectNode n = JSON.createObjectNode();
        n.put("topic", r.topic());
        n.put("partition", r.partition());
        n.put("offset", r.offset());
        n.put("timestamp", r.timestamp());
        n.put("key", r.key()); // Jackson writes byte arrays in base64
        n.put("value", r.value());
        ArrayNode headers = n.putArray("headers");
        for (Header h : r.headers()) {
            headers.addArray().add(h.key()).add(h.value());
        }
        return n;
    }

    private Client() { }
}
