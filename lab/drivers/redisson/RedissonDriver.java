// Drives Java Redisson 4, as its documentation says: `RedissonRedLock` over all nodes ("redlock" on the command
// line) or `RFencedLock` on the first ("fenced").
//
// Options. call: "tryLock" (the default) or "lock", which waits as long as it takes; only_tries: the name of a
// client that calls tryLock all the same; unit: "ms" (the default) or "s", in which the lease is given to the
// library; wait_ms: what tryLock waits at most (0: it tries once); and the client's own timeout_ms,
// connect_timeout_ms, retry_attempts. Two things are not as the library comes: it keeps
// one idle connection to a node instead of 24, and few threads.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

public class RedissonDriver extends Wire<RedissonDriver.Lease> {
  // A grant and the thread that holds it: Redisson knows owners by their threads.
  record Lease(RLock lock, Owner owner, long thread) {}

  final boolean fenced;
  final List<RedissonClient> clients = new ArrayList<>();
  JsonNode options;
  boolean waits;

  RedissonDriver(boolean fenced) {
    this.fenced = fenced;
  }

  public static void main(String[] arguments) throws Exception {
    new RedissonDriver(arguments[0].equals("fenced")).serve();
  }

  @Override
  List<String> options() {
    return List.of("call", "only_tries", "unit", "wait_ms", "timeout_ms", "connect_timeout_ms", "retry_attempts");
  }

  @Override
  void hello(JsonNode options, ObjectNode said) {
    said.put("lib", fenced ? "Redisson RFencedLock" : "Redisson RedissonRedLock");
    said.put("version", Redisson.class.getPackage().getImplementationVersion());
    said.putArray("caps").add("held").add("clock");
    if (fenced) said.withArray("caps").add("fence");
  }

  @Override
  void open(String client, List<String> nodes, JsonNode options) {
    this.options = options;
    clients.clear();
    boolean onlyTries = options.path("only_tries").asText().equals(client);
    waits = options.path("call").asText().equals("lock") && !onlyTries;
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
    RedissonClient client;
    try {
      client = Redisson.create(config);
    } catch (RedisException error) {
      System.err.println(node + ": " + error.getMessage());
      client = Redisson.create(config.setLazyInitialization(true));
    }
    opened.add(client::shutdown);
    return client;
  }

  // No time is promised, and what lies on the nodes is a hash, no token.
  @Override
  @SuppressWarnings("deprecation") // RedissonRedLock is what is tested
  Lease acquire(String key, long ttlMs, ObjectNode said) throws Exception {
    RLock lock = fenced
        ? clients.get(0).getFencedLock(key)
        : new RedissonRedLock(clients.stream().map(client -> client.getLock(key)).toArray(RLock[]::new));
    boolean inSeconds = options.path("unit").asText("ms").equals("s");
    TimeUnit unit = inSeconds ? TimeUnit.SECONDS : TimeUnit.MILLISECONDS;
    long lease = inSeconds ? ttlMs / 1000 : ttlMs;
    long wait = options.path("wait_ms").asLong(0) / (inSeconds ? 1000 : 1);
    Owner owner = new Owner();
    Long fence = owner.call(() -> waits ? lock(lock, lease, unit) : tryLock(lock, wait, lease, unit));
    if (fence == null) {
      owner.end();
      throw new Failure("refused", "tryLock", "it did not get the lock");
    }
    if (fenced) said.put("fence", fence);
    return new Lease(lock, owner, owner.call(() -> Thread.currentThread().getId()));
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

  @Override
  Lease extend(Lease lease, long ttlMs, ObjectNode said) throws Failure {
    throw new Failure("error", "UnknownOp", "it has no extension");
  }

  @Override
  void release(Lease lease) throws Exception {
    try {
      lease.owner.call(() -> {
        lease.lock.unlock();
        return null;
      });
    } catch (IllegalMonitorStateException notOurs) {
      throw Failure.refused(notOurs);
    }
  }

  @Override
  void held(Lease lease, ObjectNode said) {
    said.put("held", lease.lock.isHeldByThread(lease.thread));
  }
}
