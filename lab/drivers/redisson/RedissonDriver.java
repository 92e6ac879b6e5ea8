// Drives Java Redisson 4, as its documentation says: `RedissonRedLock` over all nodes ("redlock" on the command
// line) or `RFencedLock` on the first ("fenced").
//
// Options. call: "tryLock" (the default) or "lock", which waits as long as it takes; only_tries: the name of a
// client that calls tryLock all the same; unit: "ms" (the default) or "s", in which the lease is given to the
// library; wait_ms: what tryLock waits at most (0: it tries once); and the client's own timeout_ms,
// connect_timeout_ms, retry_attempts. Two things are not as the library comes: it keeps
// one idle connection to a node instead of 24, and few threads.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

public class RedissonDriver {
  static final ObjectMapper JSON = new ObjectMapper();
  static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
  static final List<String> OPTIONS =
      List.of("call", "only_tries", "unit", "wait_ms", "timeout_ms", "connect_timeout_ms", "retry_attempts");

  // A grant and the thread that holds it: Redisson knows owners by their threads.
  record Held(RLock lock, ExecutorService owner, long thread) {}

  @SuppressWarnings("serial")
  static class Failure extends Exception {
    final String kind;
    final String name;

    Failure(String kind, String name, String message) {
      super(message);
      this.kind = kind;
      this.name = name;
    }
  }

  final boolean fenced;
  final List<RedissonClient> clients = new ArrayList<>();
  final Map<String, Held> leases = new ConcurrentHashMap<>();
  final AtomicInteger granted = new AtomicInteger();
  JsonNode options = JSON.createObjectNode();
  boolean waits;

  RedissonDriver(boolean fenced) {
    this.fenced = fenced;
  }

  public static void main(String[] arguments) throws Exception {
    RedissonDriver driver = new RedissonDriver(arguments[0].equals("fenced"));
    ExecutorService pending = Executors.newCachedThreadPool();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonNode command = JSON.readTree(line);
      pending.execute(() -> OUT.println(driver.answer(command)));
    }
    Runtime.getRuntime().halt(0); // nothing is released
  }

  ObjectNode answer(JsonNode command) {
    ObjectNode said = JSON.createObjectNode();
    try {
      run(command, said);
      said.put("ok", true);
    } catch (Failure failure) {
      refuse(said, failure.kind, failure.name, failure.getMessage());
    } catch (Throwable error) {
      refuse(said, "error", error.getClass().getSimpleName(), String.valueOf(error.getMessage()));
    }
    return said.put("id", command.get("id").longValue());
  }

  static void refuse(ObjectNode said, String kind, String name, String message) {
    said.removeAll();
    said.put("ok", false).put("kind", kind).put("error", name).put("message", message);
  }

  void run(JsonNode command, ObjectNode said) throws Exception {
    String op = command.path("op").asText();
    switch (op) {
      case "hello" -> hello(command, said);
      case "open" -> open(command);
      case "acquire" -> acquire(command.get("key").asText(), command.get("ttl_ms").asLong(), said);
      case "release" -> release(leased(command));
      case "held" -> held(leased(command), said);
      case "clock" -> said.put("wall_ms", System.currentTimeMillis());
      default -> throw new Failure("error", "UnknownOp", "there is no operation " + op);
    }
  }

  Held leased(JsonNode command) throws Failure {
    String name = command.path("lease").asText();
    Held held = leases.get(name);
    if (held == null) throw new Failure("error", "UnknownLease", "no lease is called " + name);
    return held;
  }

  void hello(JsonNode command, ObjectNode said) throws Failure {
    Iterator<String> names = command.path("options").fieldNames();
    while (names.hasNext()) {
      String name = names.next();
      if (!OPTIONS.contains(name)) throw new Failure("error", "BadOption", name + " is none of " + OPTIONS);
    }
    said.put("lib", fenced ? "Redisson RFencedLock" : "Redisson RedissonRedLock");
    said.put("version", Redisson.class.getPackage().getImplementationVersion());
    said.putArray("caps").add("held").add("clock");
    if (fenced) said.withArray("caps").add("fence");
  }

  void open(JsonNode command) {
    options = command.get("options");
    boolean onlyTries = options.path("only_tries").asText().equals(command.path("client").asText());
    waits = options.path("call").asText().equals("lock") && !onlyTries;
    List<String> nodes = new ArrayList<>();
    command.get("nodes").forEach(node -> nodes.add(node.asText()));
    clients.addAll(nodes.subList(0, fenced ? 1 : nodes.size()).parallelStream().map(this::client).toList());
  }

  // A client for one node; one that does not answer is connected to when it is needed.
  RedissonClient client(String node) {
    Config config = new Config().setThreads(2).setNettyThreads(2);
    SingleServerConfig server = config.useSingleServer().setAddress("redis://" + node);
    server.setConnectionMinimumIdleSize(1).setSubscriptionConnectionMinimumIdleSize(1);
    if (options.has("timeout_ms")) server.setTimeout(options.get("timeout_ms").asInt());
    if (options.has("connect_timeout_ms")) server.setConnectTimeout(options.get("connect_timeout_ms").asInt());
    if (options.has("retry_attempts")) server.setRetryAttempts(options.get("retry_attempts").asInt());
    try {
      return Redisson.create(config);
    } catch (RedisException error) {
      System.err.println(node + ": " + error.getMessage());
      return Redisson.create(config.setLazyInitialization(true));
    }
  }

  @SuppressWarnings("deprecation") // RedissonRedLock is what is tested
  void acquire(String key, long ttlMs, ObjectNode said) throws Exception {
    RLock lock = fenced
        ? clients.get(0).getFencedLock(key)
        : new RedissonRedLock(clients.stream().map(client -> client.getLock(key)).toArray(RLock[]::new));
    boolean inSeconds = options.path("unit").asText("ms").equals("s");
    TimeUnit unit = inSeconds ? TimeUnit.SECONDS : TimeUnit.MILLISECONDS;
    long lease = inSeconds ? ttlMs / 1000 : ttlMs;
    long wait = options.path("wait_ms").asLong(0) / (inSeconds ? 1000 : 1);
    ExecutorService owner = Executors.newSingleThreadExecutor();
    Long fence = owner.submit(() -> waits ? lock(lock, lease, unit) : tryLock(lock, wait, lease, unit)).get();
    if (fence == null) {
      owner.shutdown();
      throw new Failure("refused", "tryLock", "it did not get the lock");
    }
    long thread = owner.submit(() -> Thread.currentThread().getId()).get();
    String name = "h" + granted.incrementAndGet();
    leases.put(name, new Held(lock, owner, thread));
    // No time is promised, and what lies on the nodes is a hash, no token.
    said.put("lease", name).putNull("token").putNull("claimed_ms");
    if (fenced) said.put("fence", fence);
    else said.putNull("fence");
  }

  // The library's calls: they return the fence, 0 for a lock that has none, null when there is no lock.

  static Long lock(RLock lock, long lease, TimeUnit unit) {
    if (lock instanceof RFencedLock withFence) return withFence.lockAndGetToken(lease, unit);
    lock.lock(lease, unit);
    return 0L;
  }

  static Long tryLock(RLock lock, long wait, long lease, TimeUnit unit) throws InterruptedException {
    if (lock instanceof RFencedLock withFence) return withFence.tryLockAndGetToken(wait, lease, unit);
    return lock.tryLock(wait, lease, unit) ? 0L : null;
  }

  void release(Held held) throws Exception {
    try {
      held.owner.submit(held.lock::unlock).get();
    } catch (java.util.concurrent.ExecutionException error) {
      if (error.getCause() instanceof IllegalMonitorStateException notOurs) {
        throw new Failure("refused", "IllegalMonitorStateException", notOurs.getMessage());
      }
      throw error;
    }
  }

  void held(Held held, ObjectNode said) {
    said.put("held", held.lock.isHeldByThread(held.thread)).putNull("claimed_ms");
  }
}
