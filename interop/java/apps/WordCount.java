import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * The word-count application of Kafka Streams. Arguments: BROKER APPLICATION INPUT OUTPUT STATE-DIRECTORY [NAME=VALUE...],
 * the last being settings such as processing.guarantee=exactly_once_v2. It ends when standard input does.
 */
public final class WordCount {
    public static void main(String[] args) throws IOException {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("application.id", args[1]);
        p.put("state.dir", args[4]);
        p.put("default.key.serde", Serdes.StringSerde.class.getName());
        p.put("default.value.serde", Serdes.StringSerde.class.getName());
        p.put("commit.interval.ms", "100");
        p.put("num.stream.threads", "2");
        for (String setting : Arrays.asList(args).subList(5, args.length)) {
            String[] parts = setting.split("=", 2);
            p.put(parts[0], parts[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(args[2])
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.as("words"))
                .count(Materialized.as("counts"))
                .toStream()
                .to(args[3], Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), p);
        streams.setUncaughtExceptionHandler(e -> {
            e.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.start();
        System.in.readAllBytes();
        streams.close(Duration.ofSeconds(20));
    }

    private WordCount() { }
}
