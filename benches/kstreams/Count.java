import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the records of each key with Kafka Streams, exactly once, until SIGTERM; for each record it writes one, as the library's
 * example does. An aggregation behind a cache would write fewer, so it is a processor with a store. Arguments: BROKERS INPUT OUTPUT
 * APPLICATION STATE-DIR.
 */
public final class Count implements Processor<String, byte[], String, byte[]> {
  @JsonIgnoreProperties(ignoreUnknown = true)
  record Input(long i) {}

  record Counted(String k, long n, long i) {}

  private static final String STORE = "counts";
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ObjectReader READER = JSON.readerFor(Input.class);
  private static final ObjectWriter WRITER = JSON.writerFor(Counted.class);

  private ProcessorContext<String, byte[]> context;
  private KeyValueStore<String, Long> counts;

  @Override
  public void init(ProcessorContext<String, byte[]> context) {
    this.context = context;
    counts = context.getStateStore(STORE);
  }

  @Override
  public void process(Record<String, byte[]> record) {
    if (record.value() == null) {
      counts.delete(record.key());
      return;
    }
    try {
      Input input = READER.readValue(record.value());
      Long count = counts.get(record.key());
      long n = count == null ? 1 : count + 1;
      counts.put(record.key(), n);
      context.forward(record.withValue(WRITER.writeValueAsBytes(new Counted(record.key(), n, input.i()))));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  public static void main(String[] args) throws InterruptedException {
    Properties settings = new Properties();
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[3]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
    settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    settings.put("auto.offset.reset", "earliest");

    StreamsBuilder builder = new StreamsBuilder();
    var store = Stores.persistentKeyValueStore(STORE);
    builder.addStateStore(Stores.keyValueStoreBuilder(store, Serdes.String(), Serdes.Long()).withCachingEnabled());
    builder
        .stream(args[1], Consumed.with(Serdes.String(), Serdes.ByteArray()))
        .process(Count::new, STORE)
        .to(args[2], Produced.with(Serdes.String(), Serdes.ByteArray()));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    CountDownLatch failed = new CountDownLatch(1);
    streams.setStateListener((now, before) -> {
      if (now == KafkaStreams.State.ERROR) failed.countDown();
    });
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
    failed.await();
    System.exit(1);
  }
}
