// Drives Java Redisson 4, as its documentation says, by the word on the command line: `RedissonRedLock` over all nodes
// ("redlock"), or on the first one `RFencedLock` ("fenced"), `RLock` ("lock"), its fair lock ("fair"), `RReadWriteLock`
// ("read-write") or `RPermitExpirableSemaphore` ("semaphore"), or `RLock` on the master that Sentinels name ("sentinel").
//
// Options. call: "tryLock" (the default) or "lock", which waits as long as it takes; only_tries: the name of a
// client that calls tryLock all the same, and does not wait; unit: "ms" (the default) or "s", in which the lease is given to the
// library; wait_ms: what tryLock waits at most (0: it tries once); watchdog: no lease is given, and the library
// renews one of lockWatchdogTimeout, which is the TTL; fair_wait_ms: fairLockWaitTimeout; and the client's own
// timeout_ms, connect_timeout_ms, retry_attempts. With one_object a lock object serves all leases of a key. With
// A semaphore has `permits` of them (2), which each client sets before its first acquire, as its users do. With
// Sentinels, check_synced: checkLockSyncedSlaves, whether a grant waits for the replicas. Some things are not as the
// library comes: it keeps one idle connection to a node instead of 24, and few threads; its delays before a retry are
// whole tenths of a second, since the tick of its timer is made of one that is drawn; and it resolves the names that
// Sentinels give by the system, not by a DNS client of its own.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.netty.resolver.DefaultAddressResolverGroup;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;
import org.redisson.config.DelayStrategy;
import org.redisson.config.EqualJitterDelay;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.SingleServerConfig;

public class RedissonDriver extends Wire<RedissonDriver.Lease> {
  // A grant and the thread that holds it: Redisson knows owners by their threads. Of a semaphore it has a name.
  record Lease(RLock lock, Owner owner, long thread, RPermitExpirableSemaphore semaphore, String permit) {}

  // As the library comes, but for the rounding.
  static final EqualJitterDelay JITTER = new EqualJitterDelay(Duration.ofSeconds(1), Duration.ofSeconds(2));
  static final DelayStrategy DELAY =
      attempt -> Duration.ofMillis(JITTER.calcDelay(attempt).toMillis() / 100 * 100);

  // What a lock object is made for; the TTL counts for the watchdog alone.
  record Made(String key, long ttlMs, boolean reads) {}

  final String kind;
  final Map<Long, List<RedissonClient>> clients = new ConcurrentHashMap<>(); // by the watchdog's time-out
  final Map<Made, RLock> objects = new ConcurrentHashMap<>();
  final Map<String, RPermitExpirableSemaphore> semaphores = new ConcurrentHashMap<>();
  List<String> nodes;
  JsonNode options;
  boolean onlyTries;
  boolean waits;

  RedissonDriver(String kind) {
    this.kind = kind;
  }

  public static void main(String[] arguments) throws Exception {
    new RedissonDriver(arguments[0]).serve();
  }

  @Override
  List<String> options() {
    List<String> own = new ArrayList<>(
        List.of("call", "only_tries", "unit", "wait_ms", "timeout_ms", "connect_timeout_ms", "retry_attempts"));
    own.add(kind.equals("semaphore") ? "permits" : "one_object");
    if (List.of("lock", "fair", "read-write", "sentinel").contains(kind)) own.add("watchdog");
    if (kind.equals("fair")) own.add("fair_wait_ms");
    if (kind.equals("sentinel")) own.add("check_synced");
    return own;
  }

  @Override
  void hello(JsonNode options, ObjectNode said) {
    said.put("lib", "Redisson " + switch (kind) {
      case "fenced" -> "RFencedLock";
      case "lock", "sentinel" -> "RLock";
      case "fair" -> "fair lock";
      case "read-write" -> "RReadWriteLock";
      case "semaphore" -> "RPermitExpirableSemaphore";
      default -> "RedissonRedLock";
    });
    said.put("version", Redisson.class.getPackage().getImplementationVersion());
    said.putArray("caps");
    if (kind.equals("semaphore")) {
      said.withArray("caps").add("extend");
      said.put("permits", permits(options)).put("node_key", "{{key}}:timeout"); // beside it lies the counter
    } else {
      said.withArray("caps").add("held");
    }
    if (kind.equals("read-write")) said.withArray("caps").add("read-write");
    if (kind.equals("fenced")) said.withArray("caps").add("fence");
    if (options.path("watchdog").asBoolean()) said.withArray("caps").add("renews");
  }

  @Override
  void open(String client, List<String> nodes, JsonNode options) {
    this.options = options;
    this.nodes = kind.equals("redlock") ? nodes : nodes.subList(0, 1);
    clients.clear();
    objects.clear();
    semaphores.clear();
    onlyTries = options.path("only_tries").asText().equals(client);
    waits = options.path("call").asText().equals("lock") && !onlyTries;
    if (!options.path("watchdog").asBoolean()) clients.put(0L, connect(0));
  }

  // A client for each node. Not in the common pool, whose threads would wait for more to do for a minute each.
  List<RedissonClient> connect(long watchdogMs) {
    ExecutorService connecting = Executors.newCachedThreadPool();
    List<CompletableFuture<RedissonClient>> made = nodes.stream()
        .map(node -> CompletableFuture.supplyAsync(() -> client(node, watchdogMs), connecting))
        .toList();
    connecting.shutdown();
    return made.stream().map(CompletableFuture::join).toList();
  }

  // A client for one node; one that does not answer is connected to when it is needed.
  RedissonClient client(String node, long watchdogMs) {
    Config config = new Config().setThreads(2).setNettyThreads(2);
    if (watchdogMs > 0) config.setLockWatchdogTimeout(watchdogMs);
    if (options.has("fair_wait_ms")) config.setFairLockWaitTimeout(options.get("fair_wait_ms").asLong());
    if (options.has("check_synced")) config.setCheckLockSyncedSlaves(options.get("check_synced").asBoolean());
    BaseConfig<?> server = kind.equals("sentinel") ? onMaster(config) : onNode(config, node);
    server.setRetryDelay(DELAY);
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

  static BaseConfig<?> onNode(Config config, String node) {
    SingleServerConfig server = config.useSingleServer().setAddress("redis://" + node);
    return server.setConnectionMinimumIdleSize(1).setSubscriptionConnectionMinimumIdleSize(1);
  }

  BaseConfig<?> onMaster(Config config) {
    config.setAddressResolverGroupFactory((datagrams, sockets, servers) -> DefaultAddressResolverGroup.INSTANCE);
    SentinelServersConfig server = config.useSentinelServers().setMasterName(service);
    for (String sentinel : sentinels) server.addSentinelAddress("redis://" + sentinel);
    server.setMasterConnectionMinimumIdleSize(1).setSlaveConnectionMinimumIdleSize(1);
    return server.setSubscriptionConnectionMinimumIdleSize(1);
  }

  static int permits(JsonNode options) {
    return options.path("permits").asInt(2);
  }

  @Override
  Lease acquire(String key, long ttlMs, ObjectNode said) throws Exception {
    return acquire(key, ttlMs, false, said);
  }

  // No time is promised, and what lies on the nodes is a hash, no token.
  @Override
  @SuppressWarnings("deprecation") // RedissonRedLock is what is tested
  Lease acquire(String key, long ttlMs, boolean reads, ObjectNode said) throws Exception {
    if (kind.equals("semaphore")) return permit(key, ttlMs, said);
    boolean watchdog = options.path("watchdog").asBoolean();
    Made of = new Made(key, watchdog ? ttlMs : 0, reads);
    RLock lock = options.path("one_object").asBoolean() ? objects.computeIfAbsent(of, this::make) : make(of);
    boolean inSeconds = options.path("unit").asText("ms").equals("s");
    TimeUnit unit = inSeconds ? TimeUnit.SECONDS : TimeUnit.MILLISECONDS;
    long lease = watchdog ? -1 : inSeconds ? ttlMs / 1000 : ttlMs;
    long wait = onlyTries ? 0 : options.path("wait_ms").asLong(0) / (inSeconds ? 1000 : 1);
    Owner owner = new Owner();
    Long fence = null;
    try {
      fence = owner.call(() -> waits ? lock(lock, lease, unit) : tryLock(lock, wait, lease, unit));
    } finally {
      if (fence == null) owner.end();
    }
    if (fence == null) throw new Failure("refused", "tryLock", "it did not get the lock");
    if (kind.equals("fenced")) said.put("fence", fence);
    return new Lease(lock, owner, owner.call(() -> Thread.currentThread().getId()), null, "");
  }

  // Whoever takes a permit sets how many there are first; the library does so once for all clients.
  Lease permit(String key, long ttlMs, ObjectNode said) throws Exception {
    RPermitExpirableSemaphore semaphore = semaphores.get(key);
    if (semaphore == null) {
      semaphore = clients.get(0L).get(0).getPermitExpirableSemaphore(key);
      semaphore.trySetPermits(permits(options));
      semaphores.put(key, semaphore);
    }
    long wait = onlyTries ? 0 : options.path("wait_ms").asLong(0);
    String permit = waits
        ? semaphore.acquire(ttlMs, TimeUnit.MILLISECONDS)
        : semaphore.tryAcquire(wait, ttlMs, TimeUnit.MILLISECONDS);
    if (permit == null) throw new Failure("refused", "tryAcquire", "it did not get a permit");
    said.put("token", permit);
    return new Lease(null, null, 0, semaphore, permit);
  }

  @SuppressWarnings("deprecation")
  RLock make(Made of) {
    List<RedissonClient> own = clients.computeIfAbsent(of.ttlMs, this::connect);
    return switch (kind) {
      case "fenced" -> own.get(0).getFencedLock(of.key);
      case "lock", "sentinel" -> own.get(0).getLock(of.key);
      case "fair" -> own.get(0).getFairLock(of.key);
      case "read-write" -> {
        RReadWriteLock both = own.get(0).getReadWriteLock(of.key);
        yield of.reads ? both.readLock() : both.writeLock();
      }
      default -> new RedissonRedLock(own.stream().map(client -> client.getLock(of.key)).toArray(RLock[]::new));
    };
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
    if (lease.semaphore == null) throw new Failure("error", "UnknownOp", "it has no extension");
    if (!lease.semaphore.updateLeaseTime(lease.permit, ttlMs, TimeUnit.MILLISECONDS))
      throw new Failure("refused", "updateLeaseTime", "it has no such permit");
    return lease;
  }

  @Override
  void release(Lease lease) throws Exception {
    if (lease.semaphore != null) {
      if (!lease.semaphore.tryRelease(lease.permit))
        throw new Failure("refused", "tryRelease", "it has no such permit");
      return;
    }
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
